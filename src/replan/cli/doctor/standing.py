"""What should go on, and does not: tasks, workers, and whoever is delivered the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import clean, counted, secs, times
from replan.core.limits.needs import Needs
from replan.engine.procrastinate.queue import busy

if TYPE_CHECKING:
    from replan.cli.doctor.look import Examined
    from replan.engine.procrastinate.queue import Worker
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
        taken = sum(worker.tasks for worker in living)
        if living:
            told = f"{counted(len(living), 'worker')}, {taken} of {counted(places, 'place')} taken"
            yield Finding(
                "workers", "ok", told, facts={"workers": len(living), "places": places, "busy": taken}
            )
        elif expected or found.lines:
            yield Finding("workers", "problem", "no worker is running", "replan worker", {"workers": 0})
    yield from _lost(workers)
    waiting: dict[tuple[str, str], int] = {}
    for line in found.lines:
        why = line.why if living else ""  # that no worker is running is told
        waiting[line.queue, why] = waiting.get((line.queue, why), 0) + line.tasks
    for (name, why), count in waiting.items():
        tasks = f"{counted(count, 'task')} of the queue {name!r}"
        facts = {"queue": name, "tasks": count, "why": why}
        if why:
            yield Finding("queue", "problem", f"{tasks}: {why}", "replan worker with what is missing", facts)
        else:
            free = busy(name, Needs(), workers) or "waiting for a free worker"
            yield Finding("queue", "ok", f"{tasks}: {free}", facts=facts)
    if (oldest := found.oldest_secs) is not None:
        late = living and oldest > _LONG_WAIT_SECS
        yield Finding(
            "wake-ups", "note" if late else "ok", f"the oldest wake-up has waited for {secs(oldest)}",
            "start more workers, or look whether those that run are stuck" if late else "", {"oldest_secs": oldest},
        )  # fmt: skip


def _lost(workers: list[Worker]) -> Iterator[Finding]:
    """Workers that have not said that they ended: those that another one has come after on their machine in one line, the others
    of a machine in another."""
    succeeded: list[Worker] = []
    by_machine: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.alive:
            continue
        since = [one for one in workers if one.alive and _machine(one) == _machine(worker)]
        if not worker.tasks and any(one.running_secs < worker.seen_secs_ago for one in since):
            succeeded.append(worker)
        else:
            by_machine.setdefault(_machine(worker), []).append(worker)
    for lost in by_machine.values():
        latest, tasks = min(lost, key=lambda one: one.seen_secs_ago), sum(one.tasks for one in lost)
        others = f" and {counted(len(lost) - 1, 'other')} there before it" if len(lost) > 1 else ""
        has = f", with {counted(tasks, 'task')} that others take over" if tasks else ""
        was = "was" if len(lost) == 1 else "were"
        yield Finding(
            "workers", "note", f"{latest.name}{others} {was} last seen {secs(latest.seen_secs_ago)} ago{has}",
            "start it again, or look why it cannot reach the database; after a day it is told no more",
            {"name": latest.name, "seen_secs_ago": latest.seen_secs_ago, "tasks": tasks, "names": [one.name for one in lost]},
        )  # fmt: skip
    if succeeded:
        told = f"{counted(len(succeeded), 'worker')} that were lost in the last day have successors on their machines"
        if len(succeeded) == 1:
            told = f"{succeeded[0].name}, lost {secs(succeeded[0].seen_secs_ago)} ago, has a successor on its machine"
        yield Finding("workers", "ok", told, facts={"names": [one.name for one in succeeded]})


def _machine(worker: Worker) -> str:
    return worker.name.partition(" on ")[2] or worker.name


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
            todo = f"start what delivers to it (`replan outbox`, `replan serve`), or `replan outbox forget {state.name}`"
        elif late > _LATE_SECS:
            todo = "it takes less than there comes: make it quicker, or deliver to several"
        bad = bool(state.failures) or (not state.read and late > _LATE_SECS)
        name = "problem" if bad else "note" if todo else "ok"
        yield Finding("outbox", name, in_words(state), todo, state._asdict())  # type: ignore[arg-type]
