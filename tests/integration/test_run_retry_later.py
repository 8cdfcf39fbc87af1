"""A tool that says that it has done nothing and when it may be called again: code waits, no model is asked."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import overall, reflection

import replan
from replan import RetryLater
from replan.cli.live.story import story
from replan.core.failures.faults import classify
from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.testing import virtual_time

PLAN = plan(step("p", "pay", parameters={"order": "o-1"}))
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "no"}, "external_error")


def run(*faults: Any, effect: str = "once", **policy: Any) -> Ran:
    async def main() -> Ran:
        answers = {
            "execution_plan": PLAN,
            "evaluation": verdict(),
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(),
        }
        tools = {"pay": FakeTool(output="paid", effect=effect, fail=list(faults))}  # type: ignore[arg-type]
        return (await (await bench(tools, answers)).run(**policy)).check()

    return virtual_time(main())


def waits(ran: Ran) -> list[float | None]:
    return [one.retry_in_secs for one in ran.events("call_failed")]


@pytest.mark.parametrize(
    "fault",
    [
        RetryLater("all desks are busy", after_secs=3),
        RetryLater("all desks are busy", 3),
        RetryLater(3),  # type: ignore[arg-type]
        RuntimeError("429 Too Many Requests, Retry-After: 3"),
        "429 … Retry-After: 3",
        "busy: try again in 3 s",
    ],
    ids=str,
)
@pytest.mark.parametrize("effect", ["once", "reads"])
def test_what_a_tool_refuses_for_now_is_called_again_after_as_long_as_it_says(
    fault: Any, effect: str
) -> None:
    ran = run(fault, effect=effect)
    assert ran.result.is_success
    assert waits(ran) == [3.0]
    assert ran.events("step_reflected") == []
    first, second = ran.events("call_started", tool_id="pay")
    assert first.call_key == second.call_key


def test_without_a_time_it_is_called_again_after_a_short_while() -> None:
    ran = run(RetryLater(), RetryLater())
    assert ran.result.is_success
    assert all(wait is not None and 0 < wait < 1 for wait in waits(ran))


def test_it_is_not_called_for_ever_and_the_model_is_told_how_often_it_was() -> None:
    ran = run(*[RetryLater("full", 2)] * 9)
    assert len(ran.events("call_started", tool_id="pay")) == 4
    assert waits(ran) == [2.0, 2.0, 2.0, None]
    (asked,) = [one for one in ran.model.requests if one.schema_name == "step_reflection"]
    assert "times the program made the call again by itself: 3" in asked.turns[0].text
    told = [line for line in story(ran.records) if "retrying in 2 s" in line]
    assert len(told) == 3


def test_a_time_to_come_back_that_is_past_the_deadline_is_not_waited_for() -> None:
    ran = run(RetryLater("closed", 3_600))
    assert waits(ran) == [None]


@pytest.mark.parametrize(
    "fault",
    ["temporarily blocked, try again later", TimeoutError("Retry-After: 3"), "timed out; retry after 3 s"],
    ids=str,
)
def test_no_words_make_code_repeat_what_may_have_happened_or_say_no_time(fault: Any) -> None:
    ran = run(fault)
    assert waits(ran) == [None]
    assert len(ran.events("call_started", tool_id="pay")) == 1


def test_a_tool_that_says_so_while_it_handles_a_time_out_is_believed() -> None:
    def fail() -> None:
        try:
            raise TimeoutError
        except TimeoutError:
            raise RetryLater("nothing was sent", 1)  # noqa: B904

    with pytest.raises(RetryLater) as caught:
        fail()
    fault = classify(caught.value, ToolSpec(id="pay"))
    assert (fault.happened, fault.kind, fault.retry_after) == ("no", "later", 1)


@pytest.mark.parametrize("secs", [-1, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(secs: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        RetryLater("x", secs)


def test_it_is_a_public_name() -> None:
    assert replan.RetryLater is RetryLater
    assert "RetryLater" in replan.__all__


@pytest.mark.parametrize("secs", [3_600, 9_999_999_999, 1e12])
@pytest.mark.parametrize("kind", ["later", "http"])
def test_a_time_to_come_back_that_is_too_late_is_named_in_the_error(kind: str, secs: float) -> None:
    busy = ToolCallError("closed", kind="http", status=429, retry_after=secs)
    ran = run(RetryLater("closed", secs) if kind == "later" else busy)
    assert waits(ran) == [None]
    (failed,) = ran.events("call_failed", tool_id="pay")
    assert (
        f"closed (it asks to be called again in {secs:,.0f} s, when the time of the task is over)"
        in failed.error.message
    )
    assert len(ran.events("call_started", tool_id="pay")) == 1


def test_the_time_of_a_step_is_named_where_it_is_the_shorter_one() -> None:
    async def main() -> Ran:
        wanted = plan(step("p", "pay", parameters={"order": "o-1"}, timeout_secs=10))
        answers = {
            "execution_plan": wanted,
            "evaluation": verdict(),
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(),
        }
        tools = {"pay": FakeTool(effect="once", fail=[RetryLater("closed", 20)])}
        return (await (await bench(tools, answers)).run()).check()

    (failed,) = virtual_time(main()).events("call_failed", tool_id="pay")
    assert "in 20 s, when the time of the step is over" in failed.error.message


def test_a_time_to_come_back_is_not_named_where_it_was_waited_for() -> None:
    ran = run(*[RetryLater("full", 2)] * 9)
    assert not any(
        "when the time of" in one.error.message for one in ran.events("call_failed", tool_id="pay")
    )


def test_seconds_may_be_given_as_a_header_has_them_and_nothing_else() -> None:
    later: Any = RetryLater
    assert later(after_secs="3").retry_after == later(3).retry_after == 3.0
    for wrong in ("soon", "-1", -1, float("inf"), float("nan"), [], "Wed, 21 Oct 2026 07:28:00 GMT"):
        with pytest.raises(ValueError, match="is not a number of seconds"):
            later(after_secs=wrong)
