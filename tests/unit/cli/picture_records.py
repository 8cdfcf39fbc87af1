"""Records for tests of the picture, written shortly."""

from __future__ import annotations

from collections.abc import Iterable

from replan.core import events as e
from replan.core.types import Fault, Plan, Step


def records(events: Iterable[tuple[float, e.AnyEvent]]) -> list[e.Record]:
    """`(seconds, event)` pairs as the records of one task."""
    numbered = []
    seq = 0
    for ts, event in events:
        stored = event.stored
        seq += stored
        numbered.append(e.Record(seq if stored else 0, "task_1", ts, 1, event))
    return numbered


def step(step_id: str, *needs: str, tool: str = "look") -> Step:
    return Step(step_id=step_id, tool=tool, dependencies=needs)


def plan(*steps: Step, version: int = 1) -> Plan:
    return Plan(plan_id="plan_1", version=version, steps=steps)


def fault(message: str) -> Fault:
    return Fault(category="tool_error", kind="tool", message=message)


def call(step_id: str, **more: object) -> dict[str, object]:
    return {"call_key": "k.1", "step_id": step_id, "tool_id": "look", **more}


DIAMOND = plan(step("rome"), step("oslo"), step("compare", "rome", "oslo"))

UNDER_WAY: list[tuple[float, e.AnyEvent]] = [
    (100.0, e.TaskSubmitted(description="Compare the weather in Rome and 奥斯陆 🚀")),
    (100.0, e.TaskStarted()),
    (
        100.0,
        e.LlmCallStarted(call_id="c1", role="planning", model="m", schema_name="execution_plan", prompt="p"),
    ),
    (100.5, e.LlmToken(call_id="c1", role="planning", text="12345")),
    (102.0, e.LlmCallCompleted(call_id="c1", role="planning", model="m", duration_secs=2.0)),
    (102.0, e.PlanGenerated(plan=DIAMOND)),
    (102.0, e.ExecutionMode(mode="parallel", reason="2 steps can overlap")),
    (102.0, e.StepStarted(step_id="rome")),
    (102.0, e.CallStarted.model_validate(call("rome", effect="reads", parameters={"city": "Rome"}))),
    (102.0, e.StepStarted(step_id="oslo")),
    (102.5, e.StepProgress(step_id="oslo", message="half way", progress=1, total=2)),
    (103.0, e.StepCompleted(step_id="rome")),
]
