"""What a worker logs: a line as it takes a task, and one as it lets go of it, so that its log tells a night."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from replan.app.running import Running
from replan.core.state.task import State
from replan.core.words import in_digits, one_line
from replan.errors import StaleWriter, TaskHeld
from replan.run.session.stops import HandedOver

log = logging.getLogger("replan.worker")


async def logged(running: Running, task_id: str) -> None:
    """Drive the task for the queue, and tell how that begins and ends."""

    def begins(state: State) -> None:
        before = f", last driven by {state.driver}" if state.driver else ""
        _tell(task_id, "taken", f"took {task_id}{before}", before=state.driver)

    with _how_it_failed(task_id):
        left = await running.drive(task_id, begins)
    if left is None:
        return
    if left.ended:
        told = f"{task_id} has ended: {left.status}, {in_digits(round(left.active_secs, 1))} s driven"
        _tell(task_id, "ended", told, status=left.status)
    elif left.waiting is not None:
        _tell(task_id, "waits", f"let go of {task_id}: {one_line(left.waiting.reason)}")


@contextlib.contextmanager
def _how_it_failed(task_id: str) -> Iterator[None]:
    try:
        yield
    except HandedOver:
        _tell(task_id, "handed_over", f"handed {task_id} over: this worker ends")
        raise
    except asyncio.CancelledError:
        _tell(task_id, "cut_off", f"cut {task_id} off: this worker ends", level=logging.WARNING)
        raise
    except StaleWriter as error:
        _tell(task_id, "lost", f"lost {task_id}: {error}", level=logging.WARNING)
        raise
    except TaskHeld as error:  # it is tried every second
        _tell(task_id, "held", f"{task_id} waits: {error}", level=logging.DEBUG)
        raise


def gave_back(task_id: str, why: str) -> None:
    """A task that could not be driven goes back into the queue."""
    _tell(task_id, "given_back", f"task {task_id} goes back into the queue: {why}", level=logging.WARNING)


def _tell(task_id: str, did: str, text: str, *, level: int = logging.INFO, **more: str) -> None:
    told = {name: value for name, value in more.items() if value}
    log.log(level, "%s", text, extra={"told": {"task_id": task_id, "did": did, **told}})
