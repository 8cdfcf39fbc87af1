"""Calls that were under way as whoever drove a task was gone, and whose steps the next plan does not have any more: nobody waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_clock import crash
from test_run_forks_alike import takes
from test_run_restated import ANEW

from replan.errors import RetryLater
from replan.testing import virtual_time

TO = {"to": "ann"}
ONCE = takes("to")
KEYED: dict[str, Any] = {"spec": {"honours_key": True}, **ONCE}
BUSY, LOST = RetryLater("a moment", after_secs=50), ConnectionResetError("cut off")
UNDER_WAY: dict[str, dict[str, Any]] = {
    "a reading": {"delay_secs": 50, **ONCE, "effect": "reads"},
    "a repeatable one": {"delay_secs": 50, **ONCE, "effect": "repeatable"},
    "one by its key": {"delay_secs": 50, **KEYED},
    "one that is turned away": {"fail": [BUSY], **ONCE},
    "one that is turned away twice": {"fail": [RetryLater("a moment", after_secs=1), BUSY], **ONCE},
    "one by its key, in doubt": {"fail": [LOST, BUSY], **KEYED},
}


async def cut_off(spec: dict[str, Any], again: dict[str, Any]) -> Ran:
    """Beside it a step fails, for which another plan is to be made; then the process ends."""
    tools = {"letter": FakeTool(**spec), "pay": FakeTool(fail=["no account"], **takes("cents"))}
    pays = step("p", "pay", parameters={"cents": 5})
    plans = [plan(step("l", "letter", parameters=TO), pays), again]
    answers = {"execution_plan": plans, "evaluation": verdict(), **ANEW}
    made = await bench(tools, answers)
    task_id = await made.submit(max_rounds=2)
    driving = asyncio.ensure_future(made.drive(task_id))
    await asyncio.sleep(20)
    await crash(made, task_id, driving)
    before = await made.ran(task_id)
    assert before.types()[-1] != "plan_updated"
    assert [one.step_id for one in before.state.under_way()] == ["l"]
    return (await made.drive(task_id)).check()


@pytest.mark.parametrize("spec", UNDER_WAY.values(), ids=[*UNDER_WAY])
def test_the_next_plan_makes_it_under_another_name(spec: dict[str, Any]) -> None:
    again = plan(step("again", "letter", parameters=TO), step("q", "pay", parameters={"cents": 6}))
    ran = virtual_time(cut_off(spec, again))
    assert ran.result.is_success, ran.result.reason
    assert ran.statuses() == {"again": "succeeded", "q": "succeeded"}
    assert ran.result.total_duration_secs < 120
    assert len({one.key for one in ran.source.calls if one.tool_id == "letter"}) == 1
    assert not ran.state.in_doubt


@pytest.mark.parametrize(
    ("kind", "unsure"),
    [
        ("a reading", False),
        ("one that is turned away", False),
        ("one that is turned away twice", False),
        ("one by its key", True),
        ("one by its key, in doubt", True),
    ],
)
def test_left_out_by_the_next_plan_it_is_a_doubt_where_it_may_have_been_made(
    kind: str, *, unsure: bool
) -> None:
    ran = virtual_time(cut_off(UNDER_WAY[kind], plan(step("q", "pay", parameters={"cents": 6}))))
    assert ran.statuses() == {"q": "succeeded"}
    assert not ran.state.under_way()
    assert [one.step_id for one in ran.events("outcome_unknown")] == (["l"] if unsure else [])
    failure = ran.result.failure
    assert (failure is not None and failure.kind == "outcome_unknown") is unsure
