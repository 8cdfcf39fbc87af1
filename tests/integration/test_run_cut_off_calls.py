"""Calls that were under way as whoever drove a task was gone, while another step had called for a new plan: those with an effect are gone on with
before it is made, and nobody waits for one whose step the next plan does not have any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
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


async def left_off(spec: dict[str, Any], *plans: dict[str, Any], **more: Any) -> tuple[Bench, str]:
    """Beside it a step fails, for which another plan is to be made; then the process ends."""
    tools = {"letter": FakeTool(**spec), "pay": FakeTool(fail=["no account"], **takes("cents"))}
    pays = step("p", "pay", parameters={"cents": 5})
    first = plan(step("l", "letter", parameters=TO), pays)
    answers = {"execution_plan": [first, *plans], "evaluation": verdict(), **ANEW}
    made = await bench(tools, answers)
    task_id = await made.submit(max_rounds=2, **more)
    driving = asyncio.ensure_future(made.drive(task_id))
    await asyncio.sleep(20)
    await crash(made, task_id, driving)
    before = await made.ran(task_id)
    assert before.types()[-1] != "plan_updated"
    assert [one.step_id for one in before.state.under_way()] == ["l"]
    return made, task_id


async def cut_off(spec: dict[str, Any], again: dict[str, Any]) -> Ran:
    made, task_id = await left_off(spec, again)
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


GONE_ON = ["a repeatable one", "one by its key", "one by its key, in doubt", "one that is turned away"]
"""As long as it was driven it would have come to its end."""


@pytest.mark.parametrize("kind", [*UNDER_WAY])
def test_left_out_by_the_next_plan_what_has_an_effect_comes_to_its_end_before_that(kind: str) -> None:
    ran = virtual_time(cut_off(UNDER_WAY[kind], plan(step("q", "pay", parameters={"cents": 6}))))
    assert ran.result.is_success, ran.result.reason
    assert ran.statuses() == {"q": "succeeded"}
    assert not ran.state.under_way()
    assert not ran.events("outcome_unknown")
    calls = [one.key for one in ran.source.calls if one.tool_id == "letter"]
    assert len(set(calls)) == 1
    had = [one for one in ran.records if one.type == "call_completed" and one.event.step_id == "l"]
    if kind != "a reading":
        assert len(had) == 1
        assert had[0].seq < next(one.seq for one in ran.records if one.type == "round_completed")


@pytest.mark.parametrize("kind", GONE_ON)
def test_where_there_is_no_new_plan_the_end_tells_of_what_was_had(kind: str) -> None:
    async def main() -> Ran:
        made, task_id = await left_off(UNDER_WAY[kind], {"cannot": "there is no such account"})
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.statuses()["l"] == "succeeded"
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    if kind != "a repeatable one":
        assert "letter" in str(ran.result.failure.done)


@pytest.mark.parametrize("word", ["done", "stop"])
@pytest.mark.parametrize("kind", GONE_ON)
def test_a_person_is_asked_how_to_go_on_once_it_is_at_its_end(kind: str, word: str) -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await left_off(UNDER_WAY[kind], {"cannot": "there is no account"}, interactive=True)
        asked = await made.drive(task_id)
        (question,) = asked.result.waiting_for
        await made.service.answer(task_id, word, question.id)
        return asked, await made.drive(task_id)

    asked, ran = virtual_time(main())
    assert asked.statuses()["l"] == "succeeded"
    assert ran.result.status == {"done": "succeeded", "stop": "failed"}[word]
    assert "letter" not in str(ran.result.shortfall)


@pytest.mark.parametrize(("kind", "unsure"), [("one by its key", True), ("one that is turned away", False)])
def test_a_task_that_is_cancelled_instead_names_it_where_it_may_have_been_made(
    kind: str, *, unsure: bool
) -> None:
    async def main() -> Ran:
        made, task_id = await left_off(UNDER_WAY[kind])
        await made.service.cancel(task_id, "enough")
        return await made.drive(task_id)

    ran = virtual_time(main())
    assert ran.result.status == "cancelled"
    assert ran.result.failure is not None
    assert ("letter" in str(ran.result.failure.in_doubt)) is unsure
    assert not ran.state.under_way()
