"""What has to hold when it is over: no task lost, none stuck, no effect twice, no gap in a log, no success that is none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.chaos.outside import journal_of
from bench.chaos.people import People
from bench.chaos.tasks import effects_of
from replan.core import events as e
from replan.errors import TaskNotFound


@dataclass
class Findings:
    """Everything that is wrong, in words; empty lists where nothing is."""

    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    hollow: list[str] = field(default_factory=list)
    """Successes without their effects."""
    odd: list[str] = field(default_factory=list)
    """Ends that nobody has brought about."""
    workers: list[str] = field(default_factory=list)
    """Workers that ended by themselves."""
    statuses: Counter[str] = field(default_factory=Counter)
    events: int = 0
    effects: int = 0
    takeovers: int = 0

    def wrong(self) -> dict[str, list[str]]:
        named = {
            "lost": self.lost, "stuck": self.stuck, "effects twice": self.twice, "gaps in a log": self.gaps,
            "successes without their effects": self.hollow, "ends of nobody's making": self.odd,
            "workers that ended by themselves": self.workers,
        }  # fmt: skip
        return {name: found for name, found in named.items() if found}


async def audit(replan: Any, people: People, folder: Path) -> Findings:
    found = Findings()
    journal = journal_of(folder)
    found.effects = sum(journal.values())
    found.twice = [f"{task}: {what} ({many})" for (task, what), many in journal.items() if many > 1]
    for task_id, plan in people.plans.items():
        try:
            records = await replan.history(task_id)
        except TaskNotFound:
            found.lost.append(task_id)
            continue
        found.events += len(records)
        found.takeovers += max(0, sum(isinstance(one.event, e.TaskResumed) for one in records))
        if [one.seq for one in records] != list(range(1, len(records) + 1)):
            found.gaps.append(task_id)
        ends = [n for n, one in enumerate(records, 1) if isinstance(one.event, e.TERMINAL)]
        if not ends:
            found.stuck.append(f"{task_id}: after {records[-1].event.type}")
            continue
        if ends != [len(records)]:
            found.gaps.append(f"{task_id}: it goes on after its end")
        result = await replan.result(task_id)
        found.statuses[result.status] += 1
        missing = [what for what in effects_of(plan) if not journal[task_id, what]]
        if result.is_success and missing:
            found.hollow.append(f"{task_id}: {missing}")
        meant = task_id in (
            people.stopped if result.status == "cancelled" else people.rejected | people.stopped
        )
        if not result.is_success and not meant:
            found.odd.append(f"{task_id}: {result.status}, {result.reason}")
    strangers = {task for task, _ in journal} - set(people.plans)
    found.odd += [f"{task}: effects of a task that nobody handed in" for task in strangers]
    return found
