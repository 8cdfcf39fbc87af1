"""Audit records: what each kind of event says, who had it done, and how large it may get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replan.core import events as e
from replan.core.audit.records import MOST_BYTES, audit_record, bounded, essence
from replan.core.reflection import OverallReflection, Strategy
from replan.core.types import Dimensions, Evaluation, Failure, Fault, JsonObject, Plan, Step

PLAN = Plan(plan_id="p", steps=(Step(step_id="a", tool="read"), Step(step_id="b", tool="write")))
FAULT = Fault(category="tool_error", kind="refused", message="it said no")
SITE: dict[str, Any] = {"call_key": "k", "step_id": "a", "tool_id": "pay"}
JUDGED = Evaluation(
    overall_score=91.5,
    is_successful=True,
    dimensions=Dimensions(completeness=90, correctness=92, efficiency=93, reliability=94),
)


def told(event: e.AnyEvent, ts: float = 1_700_000_000.25) -> JsonObject:
    record = audit_record(e.Record(7, "t", ts, 2, event))
    assert record is not None
    return record


def test_a_record_has_the_parts_that_readers_know() -> None:
    assert told(e.StepCompleted(step_id="a")) == {
        "timestamp": "2023-11-14T22:13:20.250Z", "service": "task-orchestration-service", "module": "execution",
        "level": "info", "message": "step a completed", "task_id": "t",
        "fields": {"seq": 7, "event": "step_completed", "round": 2, "step_id": "a", "failed_items": []},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "module", "level", "fields"),
    [
        (e.ToolSelectionCompleted(tools=(e.SelectedTool(tool_id="x"),)), "selection", "info", {"phase": "tool_selection", "tools": ["x"]}),
        (e.ToolSelectionCompleted(phase="replanning_tool_selection", tools=()), "selection", "info",
         {"phase": "replanning_tool_selection", "replanning": True}),
        (e.PlanGenerated(plan=PLAN), "planning", "info", {"steps": [{"step_id": "a", "tool_id": "read"}, {"step_id": "b", "tool_id": "write"}]}),
        (e.PlanUpdated(plan=PLAN, strategy="full"), "planning", "info", {"replanning": True, "strategy": "full"}),
        (e.ReplanningStarted(strategy=Strategy(type="full_replan")), "planning", "info", {"replanning": True}),
        (e.StepStarted(step_id="a"), "execution", "info", {"step_id": "a"}),
        (e.StepFailed(step_id="a", error=FAULT), "execution", "error", {"error": "it said no", "error_kind": "refused"}),
        (e.CallStarted(**SITE, effect="once", parameters={"sum": 3}), "execution", "info", {"effect": "once", "parameters": {"sum": 3}}),
        (e.EvaluationCompleted(evaluation=JUDGED), "evaluation", "info", {"score": 91.5, "is_successful": True}),
        (e.EvaluationCompleted(evaluation=None, reason="no answer"), "evaluation", "warn", {"reason": "no answer"}),
        (e.ReflectionCompleted(reflection=OverallReflection(problem_nature="tools", should_replan=True)), "reflection", "info",
         {"should_replan": True}),
        (e.ReflectionCompleted(reflection=None, reason="no answer"), "reflection", "warn", {"reason": "no answer"}),
        (e.TaskCompleted(final_output="42", score=90.0), "orchestrator", "info", {"score": 90.0, "output": "42"}),
        (e.TaskFailed(failure=Failure(kind="step", reason="it said no")), "orchestrator", "error", {"kind": "step"}),
        (e.TaskCancelled(failure=Failure(kind="cancelled", reason="enough")), "orchestrator", "warn", {"reason": "enough"}),
        (e.TaskSubmitted(description="do it", by="ann", tenant="acme"), "people", "info", {"by": "ann", "tenant": "acme"}),
        (e.ApprovalResolved(approval_id="x", approved=False, by="ann"), "people", "info", {"by": "ann", "approved": False}),
        (e.QuestionAnswered(question_id="q", answer="yes", by="bob"), "people", "info", {"by": "bob", "answer": "yes"}),
        (e.CancelRequested(by="bob", reason="enough"), "people", "info", {"by": "bob", "reason": "enough"}),
        (e.HintGiven(request_id="r", hint="look there", by="bob"), "people", "info", {"by": "bob", "hint": "look there"}),
        (e.TaskForked(origin="o", at=3, root="o", by="ann"), "people", "info", {"by": "ann", "origin": "o"}),
        (e.UnknownEvent(type="from_tomorrow", data={"x": 1}), "orchestrator", "info", {"data": {"x": 1}}),
    ],
)  # fmt: skip
def test_each_says_what_was_done_and_who_had_it_done(
    event: e.AnyEvent, module: str, level: str, fields: JsonObject
) -> None:
    record = told(event)
    assert (record["module"], record["level"]) == (module, level)
    assert record["fields"].items() >= fields.items()
    assert record["message"]


def test_what_models_were_asked_and_readings_that_begin_are_no_matter_of_audit() -> None:
    asked = e.LlmCallStarted(call_id="c", role="planning", model="m", schema_name="s", prompt="p")
    for event in (asked, e.StepReady(step_id="a"), e.CallStarted(**SITE, effect="reads", parameters={})):
        assert audit_record(e.Record(1, "t", 0.0, 1, event)) is None


def test_every_field_is_bounded_and_says_how_large_it_was() -> None:
    large: Any = {"rows": ["x" * 1000] * 5000}
    for event in (
        e.CallCompleted(**SITE, output=large),
        e.TaskCompleted(final_output="ü" * 5_000_000),
        e.TaskSubmitted(description="d" * 5_000_000, metadata=large),
        e.StepFailed(step_id="s" * 100_000, error=FAULT.model_copy(update={"message": "m" * 5_000_000})),
        e.UnknownEvent(type="new", data=large),
    ):
        assert len(json.dumps(told(event))) < 16 * MOST_BYTES
    assert told(e.TaskCompleted(final_output="ü" * 5_000_000))["fields"]["output"]["bytes"] == 10_000_002
    few = essence(told(e.TaskSubmitted(description="d" * 5_000, metadata=large)))
    assert len(json.dumps(few)) < 600
    assert few["fields"]["cut"]["bytes"] > 2_000


@pytest.mark.parametrize("ts", [-1e30, 1e30, float("nan"), float("inf"), 0.0])
def test_a_clock_that_is_mad_still_gives_a_moment(ts: float) -> None:
    assert told(e.StepCompleted(step_id="a"), ts)["timestamp"].endswith("Z")


@pytest.mark.parametrize("value", [None, "", "x", 0, [], {"a": [1, None]}])
def test_what_is_small_stays_as_it_is(value: Any) -> None:
    assert bounded(value) == value
