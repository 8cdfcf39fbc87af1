"""What should go on, and does not: tasks, workers, and whoever is delivered the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import clean, counted, secs, times

if TYPE_CHECKING:
    from replan.cli.doctor.look import Examined
    from replan.store.inspection.health import Health, StillTask

_SHOWN = 5
_LONG_WAIT_SECS = 600.0
_LATE_SECS = 300.0
_KINDS = {
    "interrupted": ("note", "nobody drives {them}, as whoever did is gone", "replan tasks resume {id}"),
    "answered": (
        "note",
        "a person has written to {them} since, and nobody goes on",
        "replan tasks resume {id}",
    ),
    "lost": (
        "problem",
        "workers should drive {them}, and none was told or the one that was is gone",
        "replan tasks resume {id}",
    ),
    "given away": (
        "problem",
        "given away to a file that was exported, and not removed: nobody drives {them}",
        "replan tasks export {id} --move -o FILE with that file, or, if it is lost, replan tasks export {id} --take-back",
    ),
    "given back": ("problem", "a worker gave {them} back", "mend that; it is tried again by itself"),
}


def queue(found: Examined, *, expected: bool) -> Iterator[Finding]:
    """Who takes tasks, and what waits for whom. `expected`: workers are what tasks are handed in for here."""
    workers = found.workers or []
    living = [worker for worker in workers if worker.alive]
    if expected or workers or found.lines:
        places = sum(worker.concurrency for worker in living)
        busy = sum(worker.tasks for worker in living)
        if living:
            told = f"{counted(len(living), 'worker')}, {busy} of {counted(places, 'place')} taken"
            yield Finding(
                "workers", "ok", told, facts={"workers": len(living), "places": places, "busy": busy}
            )
        elif expected or found.lines:
            yield Finding("workers", "problem", "no worker is running", "replan worker", {"workers": 0})
    for worker in workers:
        if not worker.alive:
            has = f", and has {counted(worker.tasks, 'task')} that others take over" if worker.tasks else ""
            yield Finding(
                "workers", "note", f"{worker.name} was last seen {secs(worker.seen_secs_ago)} ago{has}",
                "start it again, or look why it cannot reach the database",
                {"name": worker.name, "seen_secs_ago": worker.seen_secs_ago, "tasks": worker.tasks},
            )  # fmt: skip
    for line in found.lines:
        tasks = f"{counted(line.tasks, 'task')} of the queue {line.queue!r}"
        facts = {"queue": line.queue, "tasks": line.tasks, "why": line.why}
        if line.why and living:
            todo = "replan worker with what is missing"
            yield Finding("queue", "problem", f"{tasks}: {line.why}", todo, facts)
        else:
            yield Finding("queue", "ok", f"{tasks}: waiting for a free worker", facts=facts)
    if (oldest := found.oldest_secs) is not None:
        late = living and oldest > _LONG_WAIT_SECS
        yield Finding(
            "wake-ups", "note" if late else "ok", f"the oldest wake-up has waited for {secs(oldest)}",
            "start more workers, or look whether those that run are stuck" if late else "", {"oldest_secs": oldest},
        )  # fmt: skip


def standing(health: Health) -> Iterator[Finding]:
    """Tasks that somebody should drive, and nobody does."""
    from replan.store.inspection.health import MOST

    by_kind: dict[tuple[str, str], list[StillTask]] = {}
    for task in health.still:
        by_kind.setdefault((task.kind, task.why), []).append(task)
    for (kind, why), tasks in by_kind.items():
        state, said, todo = _KINDS[kind]
        names = ", ".join(task.task_id for task in tasks[:_SHOWN])
        more = (
            ""
            if len(tasks) <= _SHOWN
            else f" and {len(tasks) - _SHOWN}{'' if len(tasks) < MOST else ' or'} more"
        )
        them = "it" if len(tasks) == 1 else "them"
        told = f"{counted(len(tasks), 'task')} ({names}{more}): {said.format(them=them)}"
        if why:
            told += f": {clean(why, 500)}"
        else:
            told += f"; the oldest for {secs(max(task.secs for task in tasks))}"
        facts = {"kind": kind, "why": why, "tasks": [task.task_id for task in tasks]}
        yield Finding("tasks", state, told, todo.format(id=tasks[0].task_id), facts)  # type: ignore[arg-type]


def consumers(health: Health) -> Iterator[Finding]:
    """Whoever is delivered the log, and how far each is behind."""
    from replan.cli.commands.outbox import in_words

    for state in health.consumers or ():
        late = 0.0 if state.behind_since is None else time.time() - state.behind_since
        todo = ""
        if state.failures:
            todo = f"it is tried again by itself; mend what it says ({times(state.failures)} in a row)"
        elif not state.read and state.events_behind:
            todo = (
                f"start what delivers to it (`replan outbox write`), or `replan outbox forget {state.name}`"
            )
        elif late > _LATE_SECS:
            todo = "it takes less than there comes: make it quicker, or deliver to several"
        bad = bool(state.failures) or (not state.read and late > _LATE_SECS)
        name = "problem" if bad else "note" if todo else "ok"
        yield Finding("outbox", name, in_words(state), todo, state._asdict())  # type: ignore[arg-type]
