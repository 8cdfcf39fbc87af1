"""What `bench.plans` compares is sound: every task comes to just its effects in each way, and costs no more than before."""

from __future__ import annotations

import asyncio
import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))
from bench.plans.agents import PEERS, Peer
from bench.plans.hands import ByHand, Directly, Hands, Turns
from bench.plans.measure import TASKS, by_hand, measured
from bench.plans.replan_runs import BEFORE, NOW
from bench.plans.report import told, verdicts
from bench.plans.row import Row
from bench.plans.task import Task

from replan.testing import FakeSource, FakeTool, fake_source, virtual_time

AGENTS_ON = ("invoices for 9 orders", "an export")
"""Enough for a test: side by side, one after another, and waiting."""


@cache
def rows(name: str) -> dict[str, Row]:
    (task,) = (one for one in TASKS if one.name == name)
    return {row.runner: row for row in measured(task, ())}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_is_done_by_a_plan_that_says_it_and_before_in_more_rounds(task: Task) -> None:
    now, before = rows(task.name)[NOW], rows(task.name)[BEFORE]
    assert not now.wrong
    others = sum(map(len, (task.answers or {}).values()))
    assert now.requests == len(task.now) + others + 1, (
        "a request for each part, each step's own, and one to judge"
    )
    assert bool(before.wrong) is task.failed_before, before.wrong
    assert 1 - 1e-6 <= now.to_critical < 1.2


def test_what_was_asked_of_plans_holds() -> None:
    every = [row for task in TASKS for row in rows(task.name).values()]
    assert [str(one) for one in verdicts(every) if not one.holds] == []
    table = told(every, ())
    assert all(task.name in table for task in TASKS)


@pytest.mark.parametrize("name", AGENTS_ON)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.label)
def test_an_agent_does_the_same_task(peer: Peer, name: str) -> None:
    if peer.version() is None:
        pytest.skip(f"{peer.label} is not installed")
    (task,) = (one for one in TASKS if one.name == name)
    row = virtual_time(peer.run(task, virtual_time(by_hand(task))))
    assert not row.wrong
    assert row.to_critical == pytest.approx(1.0)


def test_a_turn_of_a_model_makes_every_call_that_the_program_has_come_to() -> None:
    async def program(hands: Hands) -> str:
        async def one(name: str) -> str:
            first = await hands.do("first", name=name)
            return str(await hands.do("second", of=first))

        both = await hands.each(one("a"), one("b"), hands.do("alone"))
        nothing = await hands.each()
        return f"{list(both)} {list(nothing)}"

    async def turns() -> list[object]:
        model = Turns(program)
        said = [await model.next([])]
        said.append(await model.next(["A", "B", "C"]))
        said.append(await model.next(["AA", "BB"]))
        return [one.calls or one.text for one in said]

    assert virtual_time(turns()) == [
        [("first", {"name": "a"}), ("first", {"name": "b"}), ("alone", {})],
        [("second", {"of": "A"}), ("second", {"of": "B"})],
        "['AA', 'BB', 'C'] []",
    ]
    source = fake_source(
        {
            "first": FakeTool(lambda given: given["name"].upper(), delay_secs=1),
            "second": FakeTool(lambda given: given["of"] * 2, delay_secs=2),
            "alone": FakeTool("C", delay_secs=2.5),
        }
    )
    assert virtual_time(_direct(program, source)) == ("['AA', 'BB', 'C'] []", 3.0)


async def _direct(program: ByHand, source: FakeSource) -> tuple[str, float]:
    began = asyncio.get_running_loop().time()
    return await program(Directly(source)), round(asyncio.get_running_loop().time() - began, 6)
