"""Every task with every runner, on a clock where waiting takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from bench.plans import replan_runs, tasks_items, tasks_model, tasks_parts, tasks_values, tasks_waiting
from bench.plans.agents import Peer
from bench.plans.hands import Directly
from bench.plans.row import Row, Wanted, effects_of
from bench.plans.task import Task
from replan.testing import FakeSource, virtual_time

TASKS: Sequence[Task] = (
    *tasks_parts.TASKS,
    *tasks_model.TASKS,
    *tasks_values.TASKS,
    *tasks_items.TASKS,
    *tasks_waiting.TASKS,
)


def measured(task: Task, peers: Sequence[Peer]) -> Iterator[Row]:
    """The task as it could be planned before, as it can be now, and with the agents of others."""
    wanted = virtual_time(by_hand(task))
    yield virtual_time(replan_runs.before(task, wanted))
    yield virtual_time(replan_runs.now(task, wanted))
    for peer in peers:
        yield virtual_time(peer.run(task, wanted))


async def by_hand(task: Task) -> Wanted:
    """What it comes to, and how long it takes, where a program does it."""
    source = FakeSource(task.tools())
    clock = asyncio.get_running_loop().time
    began = clock()
    answer = await task.by_hand(Directly(source, task.person))
    return Wanted(effects_of(source), answer, clock() - began)
