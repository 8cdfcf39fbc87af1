"""One task from start to end on a terminal: shown while it runs, and cancelled by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import typer

from replan.cli.live.show import Show
from replan.cli.terminal.again import again
from replan.cli.terminal.exits import INTERRUPTED, WAITING
from replan.cli.terminal.interrupts import interrupts
from replan.cli.terminal.remote.meant import is_service
from replan.cli.terminal.terminal import Out, say

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.core.events import Record
    from replan.core.report.result import TaskResult

FRAME_SECS = 0.1
"""Between two drawings of the picture."""
NOBODY_SECS = 5.0
"""So long a task waits for a worker before that is worth a word."""
LOOK_SECS = 1.0
LAST_RECORDS_SECS = 5.0
"""How long the picture may lag behind the result."""


async def to_the_end(
    replan: Replan,
    task_id: str,
    show: Show,
    events: Out | None,
    *,
    past: Sequence[Record] = (),
    finish: Callable[[str], Awaitable[TaskResult]] | None = None,
    followed: bool = False,
) -> TaskResult:
    """Show the task until it ends or is left waiting, and give its result; Ctrl-C asks it to end first, or leaves one alone that
    a worker drives or that waits (`typer.Exit`).

    `events`: where to write each stored record as a line of JSON. `past`: what was told or drawn before, or long ago: the
    picture begins with it, and nothing of it is told again. `finish`: what gives the result in the end; None: `replan.wait`.
    `followed`: somebody else drives it, and goes on with it whatever happens to this command.
    """
    from replan.core.state.task import ENDED

    stopping: set[asyncio.Task[None]] = set()
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(signal: str) -> None:
        stopping.add(asyncio.create_task(_leave_or_cancel(replan, task_id, signal, left, followed=followed)))

    ends = replan.end_of(task_id) if is_service(replan) else replan.service.parts.feed.end_of(task_id)  # type: ignore[attr-defined]
    with ends as end, interrupts(task_id, stop, end.is_set):
        for record in past:
            show.recall(record)
        begun = past[-1].seq if past else 0
        last: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        watching = asyncio.create_task(watch(replan, task_id, show, events, after=begun, last=last))
        finishing = asyncio.ensure_future((finish or replan.wait)(task_id))
        try:
            result = await _unless_left(finishing, left)
            if result.status in ENDED:
                end.set()  # also of a task that is driven elsewhere
            last.set_result((await replan.summary(task_id)).last_seq)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_RECORDS_SECS):
                    await asyncio.shield(watching)
        finally:
            for beside in (watching, finishing):
                beside.cancel()
            await asyncio.gather(watching, finishing, *stopping, return_exceptions=True)
    if stopping and result.status == "waiting":  # it was cancelled just after it had been left
        return await replan.result(task_id)
    return result


async def _unless_left(finishing: asyncio.Future[TaskResult], left: asyncio.Future[int]) -> TaskResult:
    """The result, as soon as it is there; the command ends where the task is left alone."""
    await asyncio.wait({finishing, cast("asyncio.Future[Any]", left)}, return_when=asyncio.FIRST_COMPLETED)
    if left.done() and not finishing.done():
        raise typer.Exit(left.result())
    return await finishing


async def _leave_or_cancel(
    replan: Replan, task_id: str, signal: str, left: asyncio.Future[int], *, followed: bool
) -> None:
    """Cancel the task; where nothing of it is at work here, leave it alone, with the exit code for that.

    Who has it driven by workers and presses Ctrl-C means the task; a terminal that goes away means nothing.
    """
    from replan.errors import TaskEnded

    summary = await replan.summary(task_id)
    by_others = (summary.queue or is_service(replan)) and not replan.drives(task_id)
    if followed or (by_others and signal != "Ctrl-C"):
        end = again("tasks", "cancel", task_id)
        say(
            f"the task is left to who drives it ({signal}); `{again('tasks', 'watch', task_id)}` follows it, `{end}` ends it"
        )
        left.set_result(INTERRUPTED)
        return
    if summary.status == "waiting":
        end = again("tasks", "cancel", task_id)
        say(
            f"the task waits as before ({signal}); `{again('tasks', 'resume', task_id)}` goes on with it, `{end}` ends it"
        )
        left.set_result(WAITING)
        return
    once_more = "press Ctrl-C again" if signal == "Ctrl-C" else f"told so by {signal}; a second one is"
    say(f"cancelling the task; {once_more} to stop at once")
    with contextlib.suppress(TaskEnded):
        if is_service(replan):
            await replan.cancel(task_id, reason=f"interrupted ({signal})")
        else:
            await replan.service.cancel(task_id, reason="interrupted", by=signal, until_resumed=True)


async def watch(
    replan: Replan,
    task_id: str,
    show: Show,
    events: Out | None,
    *,
    after: int = 0,
    last: asyncio.Future[int] | None = None,
) -> None:
    """Feed every record to the picture and, the stored ones, to `events`, until the task ends.

    `last`: will be the seq of the last record there is to see, once whoever finishes the task knows it. Without it, the
    watch ends when the task is left waiting for a person, and breaks when nobody drives it.
    """
    from replan.errors import ReplanError

    drawing = asyncio.create_task(_draw(show))
    looking = asyncio.create_task(_say_who_is_missing(replan, task_id))
    records = replan.watch(task_id, after=after, ephemeral=True)
    seen = after
    try:
        while True:
            try:
                record = await _next(records, last, seen)
            except ReplanError:
                if last is None:
                    raise
                # whoever finishes the task says why
                records = replan.watch(task_id, after=seen, ephemeral=True)
                continue
            if record is None:
                break
            show.take(record)
            if record.seq > 0:
                seen = record.seq
                if events is not None:
                    events.json(record.wire(), compact=True)
            waits = record.type == "task_waiting" and getattr(record.event, "by_itself", None) is None
            if last is None and waits and await _is_left_waiting(replan, task_id):
                break
    finally:
        for beside in (drawing, looking):
            beside.cancel()
        await asyncio.gather(drawing, looking, return_exceptions=True)
        show.close()


async def _next(records: AsyncIterator[Record], last: asyncio.Future[int] | None, seen: int) -> Record | None:
    """The next record; None if there is none, or `last` was seen."""
    coming = asyncio.ensure_future(_one(records))
    either: set[asyncio.Future[Any]] = {coming} if last is None else {coming, last}
    try:
        while not coming.done():
            if last is not None and last.done():
                if seen >= last.result():
                    return None
                either = {coming}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return coming.result()
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


async def _one(records: AsyncIterator[Record]) -> Record | None:
    return await anext(records, None)


async def _is_left_waiting(replan: Replan, task_id: str) -> bool:
    """True if the task waits and its driver has let go of it."""
    while (summary := await replan.summary(task_id)).status == "waiting":
        if not summary.held:
            return True
        await asyncio.sleep(FRAME_SECS)
    return False


async def _say_who_is_missing(replan: Replan, task_id: str) -> None:
    """Say so, each time for another reason, while no worker takes a task that waits for one."""
    from replan.core.state.task import ENDED

    told, since = "", asyncio.get_running_loop().time()
    while (summary := await replan.summary(task_id)).queue and summary.status not in ENDED:
        now = asyncio.get_running_loop().time()
        if not summary.lacks_worker:
            told, since = "", now
        elif now - since >= NOBODY_SECS:
            why = await replan.why_waiting(task_id) or "the workers that could take it are busy"
            if why != told:
                say(f"no worker has taken the task for {now - since:.0f} s: {why}")
                told = why
        await asyncio.sleep(LOOK_SECS)


async def _draw(show: Show) -> None:
    while True:
        show.tick()
        await asyncio.sleep(FRAME_SECS)
