"""Events of one small task, to be put together into histories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replan.core import events as e
from replan.core.events import AnyEvent, Record
from replan.core.limits.policy import Policy
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import Action, Dimensions, Evaluation, Fault, Plan, Step

STEPS = (
    Step(step_id="find", tool="search", parameters={"q": "x"}),
    Step(step_id="send", tool="mail", parameters={"to": "${find.output}"}, dependencies=("find",)),
)
PLAN = Plan(plan_id="plan_1", steps=STEPS)

SUBMITTED = e.TaskSubmitted(description="Do it", metadata={"team": "red"})
STARTED = e.TaskStarted(driver="d")
ROUND = e.RoundStarted(round=1)
SELECTED = e.ToolSelectionCompleted(tools=(e.SelectedTool(tool_id="search"), e.SelectedTool(tool_id="mail")))
PLANNED = e.PlanGenerated(plan=PLAN)
CANCEL = e.CancelRequested(reason="bored", by="Ann")
OPENED = [SUBMITTED, STARTED, ROUND, SELECTED]
TIMED_OUT = Fault(
    category="external_error", kind="timeout", message="no answer", transient=True, happened="unknown"
)
REFUSED = Fault(category="parameter_error", kind="http", message="no such city", status=404)


def submitted(**policy: Any) -> e.TaskSubmitted:
    return e.TaskSubmitted(description="Do it", policy=Policy(**policy))


def planned(*steps: Step, version: int = 1) -> e.PlanGenerated:
    return e.PlanGenerated(plan=Plan(plan_id=f"plan_{version}", version=version, steps=steps))


def ready(step_id: str) -> e.StepReady:
    return e.StepReady(step_id=step_id)


def begun(step_id: str, items: int | None = None) -> e.StepStarted:
    return e.StepStarted(step_id=step_id, items=items)


def call(step_id: str = "find", key: str = "k.1", tool: str = "search", attempt: int = 1, **more: Any) -> Any:
    return {"call_key": key, "step_id": step_id, "tool_id": tool, "attempt": attempt, **more}


def called(effect: Any = "reads", **of: Any) -> e.CallStarted:
    return e.CallStarted(**call(**of), effect=effect, parameters={"q": "x"})


def answered(output: Any = "hit", *, reused: bool = False, **of: Any) -> e.CallCompleted:
    return e.CallCompleted(**call(**of), output=output, reused=reused)


def missed(fault: Fault = REFUSED, again: float | None = None, **of: Any) -> e.CallFailed:
    return e.CallFailed(**call(**of), error=fault, retry_in_secs=again)


def doubted(**of: Any) -> e.OutcomeUnknown:
    return e.OutcomeUnknown(**call(**of), reason="no answer")


def done(step_id: str, **metadata: Any) -> e.StepCompleted:
    return e.StepCompleted(step_id=step_id, metadata=metadata)


def broken(step_id: str, fault: Fault = REFUSED) -> e.StepFailed:
    return e.StepFailed(step_id=step_id, error=fault)


def skipped(step_id: str, kind: Any = "dependency_failed", because: str | None = "find") -> e.StepSkipped:
    return e.StepSkipped(step_id=step_id, kind=kind, reason=f"{because} failed", because=because)


def judged(score: float = 90, ok: bool = True, correctness: float = 90, **more: Any) -> e.EvaluationCompleted:
    dimensions = Dimensions(completeness=90, correctness=correctness, efficiency=90, reliability=90)
    verdict = Evaluation(overall_score=score, is_successful=ok, dimensions=dimensions, **more)
    return e.EvaluationCompleted(evaluation=verdict)


UNJUDGED = e.EvaluationCompleted(evaluation=None, reason="the judge answered nonsense")
FOUND = [begun("find"), called(), answered(), done("find")]
SENT_OF = {"step_id": "send", "key": "m.1", "tool": "mail"}
SENT = [begun("send"), called("once", **SENT_OF), answered("sent", **SENT_OF), done("send")]
ALL_DONE = [*OPENED, PLANNED, *FOUND, *SENT]


def records(events: Iterable[AnyEvent], start: float = 100.0) -> list[Record]:
    """One second apart."""
    return [Record(n, "task_1", start + n, 1, event) for n, event in enumerate(events, 1)]


def state_of(events: Iterable[AnyEvent]) -> State:
    return fold(records(events))


def two_actions() -> Step:
    return Step(
        step_id="pair", actions=(Action(action_id="a", tool="search"), Action(action_id="b", tool="mail"))
    )
