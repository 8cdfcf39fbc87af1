"""What each kind of event says for the audit: which part of the loop it is of, a sentence, and what belongs to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from replan.core import events as e
from replan.core.reflection import Strategy
from replan.core.types import Artifact, Fault, JsonObject
from replan.core.words import in_digits


class Said(NamedTuple):
    """What a record says beside its place in the log."""

    module: str
    message: str
    fields: JsonObject = {}
    level: str = "info"


def said_of(event: e.AnyEvent) -> Said | None:
    """None for what is no matter of audit."""
    return (
        _of_planning(event) or _of_steps(event) or _of_rounds(event) or _of_people(event) or _of_task(event)
    )


def _of_planning(event: e.AnyEvent) -> Said | None:
    match event:
        case e.ToolSelectionCompleted():
            fields: JsonObject = {
                "phase": event.phase, "tools": [one.tool_id for one in event.tools], "task_type": event.task_type,
                "workflow_id": event.workflow_id, "asked": event.asked, "dropped": list(event.dropped),
                "reasoning": event.reasoning,
            }  # fmt: skip
            if event.phase == "replanning_tool_selection":
                fields["replanning"] = True
            return Said("selection", f"{_several(event.tools, 'tool')} selected", fields)
        case e.PlanGenerated():
            fields = {
                "plan_id": event.plan.plan_id, "steps": _steps(event.plan.steps), "task_type": event.task_type,
                "workflow_id": event.workflow_id, "corrections": event.corrections,
            }  # fmt: skip
            return Said("planning", f"plan of {_several(event.plan.steps, 'step')} made", fields)
        case e.PlanRejected():
            fields = {"violations": list(event.violations), "attempt": event.attempt}
            return Said("planning", "a plan did not pass the checks", fields, "warn")
        case e.PlanUpdated():
            fields = {
                "plan_id": event.plan.plan_id, "steps": _steps(event.plan.steps), "strategy": event.strategy,
                "reason": event.reason, "reset": list(event.reset), "replanning": True,
            }  # fmt: skip
            return Said("planning", f"plan of {_several(event.plan.steps, 'step')} made anew", fields)
        case e.PlanningStopped():
            fields = {"kind": event.kind, "reason": event.reason, "violations": list(event.violations)}
            return Said("planning", f"there is no plan: {event.reason}", fields, "warn")
        case _:
            return None


def _of_steps(event: e.AnyEvent) -> Said | None:
    match event:
        case e.StepStarted():
            return Said(
                "execution", f"step {event.step_id} started", {"step_id": event.step_id, "items": event.items}
            )
        case e.StepCompleted():
            fields: JsonObject = {"step_id": event.step_id, "failed_items": list(event.failed_items)}
            return Said("execution", f"step {event.step_id} completed", fields)
        case e.StepFailed():
            fields = {"step_id": event.step_id, **_fault(event.error)}
            return Said("execution", f"step {event.step_id} failed: {event.error.message}", fields, "error")
        case e.StepSkipped():
            fields = {
                "step_id": event.step_id,
                "kind": event.kind,
                "reason": event.reason,
                "because": event.because,
            }
            return Said("execution", f"step {event.step_id} is left out: {event.reason}", fields)
        case e.CallStarted() if event.effect != "reads":
            fields = {**_call(event), "effect": event.effect, "parameters": event.parameters}
            return Said("execution", f"{event.tool_id} is called", fields)
        case e.CallCompleted() if not event.reused:
            fields = {
                **_call(event),
                "duration_secs": event.duration_secs,
                **_output(event.output, event.artifact),
            }
            return Said("execution", f"{event.tool_id} has answered", fields)
        case e.CallFailed():
            fields = {**_call(event), **_fault(event.error), "retry_in_secs": event.retry_in_secs}
            return Said("execution", f"{event.tool_id} has failed: {event.error.message}", fields, "warn")
        case e.OutcomeUnknown():
            fields = {**_call(event), "reason": event.reason}
            return Said(
                "execution", f"whether {event.tool_id} took effect is unknown: {event.reason}", fields, "warn"
            )
        case e.OutcomeSettled():
            happened = "took effect" if event.happened else "did not take effect"
            fields = {**_call(event), "happened": event.happened, "by": event.by}
            return Said("execution", f"{event.tool_id} {happened}, as {event.by or 'is known'}", fields)
        case e.StepReflected():
            fields = {
                "step_id": event.step_id, "tool_id": event.tool_id, **_fault(event.error), "action": event.action.type,
                "decided_by": event.by, "reason": event.reason,
            }  # fmt: skip
            return Said("reflection", f"step {event.step_id} reflected on: {event.action.type}", fields)
        case e.StepRepaired():
            fields = {
                "step_id": event.step_id,
                "tool_id": event.step.tool,
                "plan_version": event.plan_version,
                "hint": event.hint,
            }
            return Said("planning", f"step {event.step_id} written anew", fields)
        case _:
            return None


def _of_rounds(event: e.AnyEvent) -> Said | None:
    match event:
        case e.EvaluationCompleted(evaluation=None):
            fields: JsonObject = {"judged_by": event.by, "reason": event.reason}
            return Said("evaluation", f"the round could not be judged: {event.reason}", fields, "warn")
        case e.EvaluationCompleted(evaluation=judged) if judged is not None:
            fields = {
                "judged_by": event.by, "score": judged.overall_score, "is_successful": judged.is_successful,
                "dimensions": judged.dimensions.model_dump(mode="json"), "failures": list(judged.failures),
                "wrong_results": list(judged.wrong_results),
            }  # fmt: skip
            word = "a success" if judged.is_successful else "no success"
            return Said(
                "evaluation", f"the round is judged {word}: {in_digits(judged.overall_score)} of 100", fields
            )
        case e.OverallReflectionTriggered():
            fields = {"step_id": event.step_id, "reason": event.reason, "replan": event.replan}
            return Said("reflection", f"the round is to be reflected on: {event.reason}", fields, "warn")
        case e.ReflectionCompleted(reflection=None):
            fields = {"decided_by": event.by, "reason": event.reason}
            return Said("reflection", f"there is no reflection: {event.reason}", fields, "warn")
        case e.ReflectionCompleted(reflection=found) if found is not None:
            fields = {
                "decided_by": event.by, "problem_nature": found.problem_nature, "should_replan": found.should_replan,
                "strategy": _strategy(found.replanning_strategy), "root_causes": list(found.root_causes), "text": found.reflection_text,
            }  # fmt: skip
            word = "another round" if found.should_replan else "no further round"
            return Said("reflection", f"the round is reflected on: {word}", fields)
        case e.ReplanningStarted():
            fields = {
                "strategy": _strategy(event.strategy),
                "reason": event.reason,
                "refused": _strategy(event.refused),
                "replanning": True,
            }
            return Said("planning", f"the plan is made anew: {event.strategy.type}", fields)
        case e.BudgetWarning():
            fields = {"limit": event.limit, "used": event.used, "allowed": event.allowed}
            used, allowed = in_digits(event.used), in_digits(event.allowed)
            return Said("orchestrator", f"{event.limit}: {used} of {allowed} used", fields, "warn")
        case _:
            return None


def _of_people(event: e.AnyEvent) -> Said | None:
    match event:
        case e.TaskSubmitted():
            fields: JsonObject = {
                "by": event.by, "tenant": event.tenant, "session": event.session, "description": event.description,
                "metadata": event.metadata, "secrets": sorted(event.secrets), "approval": event.policy.approval,
            }  # fmt: skip
            return Said("people", f"task submitted: {event.description}", fields)
        case e.TaskForked():
            fields = {
                "by": event.by,
                "origin": event.origin,
                "at": event.at,
                "reason": event.reason,
                "hint": event.hint,
            }
            return Said("people", f"forked from {event.origin} at event {event.at}", fields)
        case e.ForkMade():
            fields = {"by": event.by, "fork": event.fork, "at": event.at, "reason": event.reason}
            return Said("people", f"task {event.fork} goes on from event {event.at}", fields)
        case e.ApprovalRequested():
            fields = {
                **_call(event), "approval_id": event.approval_id, "effect": event.effect, "parameters": event.parameters,
                "why": event.why,
            }  # fmt: skip
            return Said("people", f"a yes is needed for {event.tool_id}", fields)
        case e.ApprovalResolved():
            fields = {
                "by": event.by, "approval_id": event.approval_id, "approved": event.approved, "reason": event.reason,
                "parameters": event.parameters, "without": list(event.without),
            }  # fmt: skip
            return Said("people", f"approval {'given' if event.approved else 'refused'}", fields)
        case e.ApprovalExpired():
            return Said("people", "nobody has agreed in time", {"approval_id": event.approval_id}, "warn")
        case e.PlanReviewRequested():
            fields = {
                "review_id": event.review_id, "plan_version": event.plan_version, "effects": list(event.outlook.effects),
                "problems": list(event.problems),
            }  # fmt: skip
            return Said("people", f"a yes is needed for plan {event.plan_version}", fields)
        case e.PlanReviewed():
            fields = {
                "by": event.by, "review_id": event.review_id, "approved": event.approved, "reason": event.reason,
                "changed": event.plan is not None,
            }  # fmt: skip
            return Said("people", f"plan {'agreed to' if event.approved else 'refused'}", fields)
        case e.PlanReviewExpired():
            return Said(
                "people", "nobody has reviewed the plan in time", {"review_id": event.review_id}, "warn"
            )
        case e.QuestionAsked():
            fields = {
                "question_id": event.question_id,
                "kind": event.kind,
                "text": event.text,
                "step_id": event.step_id,
            }
            return Said("people", f"a person is asked: {event.text}", fields)
        case e.QuestionAnswered():
            fields = {
                "by": event.by, "question_id": event.question_id, "answer": event.answer, "happened": event.happened,
                "output": event.output,
            }  # fmt: skip
            return Said("people", "a question is answered", fields)
        case e.CallbackReceived():
            return Said("people", "a callback was used", {"by": event.by, "data": event.data})
        case e.CancelRequested() | e.PauseRequested() | e.ResumeRequested():
            what = event.type.removesuffix("_requested")
            return Said(
                "people",
                f"{what} asked for: {event.reason}" if event.reason else f"{what} asked for",
                {"by": event.by, "reason": event.reason},
            )
        case e.HintGiven():
            return Said("people", "a hint was given", {"by": event.by, "hint": event.hint})
        case e.RetryRequested():
            fields = {"by": event.by, "step_id": event.step_id, "reason": event.reason}
            return Said("people", f"step {event.step_id} is to be tried again", fields)
        case e.JudgementRequested():
            return Said("people", "the round is to be judged anew", {"by": event.by, "hint": event.hint})
        case e.RequestTaken() if event.refused:
            return Said(
                "people",
                f"a request was refused: {event.refused}",
                {"request_id": event.request_id, "refused": event.refused},
                "warn",
            )
        case _:
            return None


def _of_task(event: e.AnyEvent) -> Said | None:
    match event:
        case e.TaskStarted():
            return Said(
                "orchestrator", "the task is driven", {"driver": event.driver, "version": event.version}
            )
        case e.TaskResumed():
            fields: JsonObject = {"driver": event.driver, "version": event.version, "reason": event.reason}
            return Said("orchestrator", "the task goes on", fields)
        case e.TaskWaiting():
            return Said(
                "orchestrator",
                f"the task waits: {event.reason}",
                {"reason": event.reason, "waits_for": list(event.waits_for)},
            )
        case e.TaskCompleted():
            fields = {
                "score": event.score,
                "shortfall": list(event.shortfall),
                **_output(event.final_output, event.artifact),
            }
            return Said("orchestrator", "the task has succeeded", fields)
        case e.TaskFailed() | e.TaskCancelled() | e.TaskTimedOut():
            failure = event.failure
            fields = {
                "kind": failure.kind, "reason": failure.reason, "root_causes": list(failure.root_causes),
                "done": list(failure.done), "in_doubt": list(failure.in_doubt),
            }  # fmt: skip
            if isinstance(event, e.TaskFailed):
                fields |= {"score": event.score, **_output(event.final_output, event.artifact)}
            how = event.type.removeprefix("task_").replace("_", " ")
            level = "warn" if isinstance(event, e.TaskCancelled) else "error"
            return Said(
                "orchestrator", f"the task has {_ENDS.get(how, how)}: {failure.reason}", fields, level
            )
        case e.UnknownEvent():
            return Said(
                "orchestrator", f"{event.type}, which this release does not know", {"data": event.data}
            )
        case _:
            return None


_ENDS = {"cancelled": "been cancelled"}


def _several(things: Iterable[Any], name: str) -> str:
    count = sum(1 for _ in things)
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _steps(steps: Iterable[Any]) -> list[JsonObject]:
    return [{"step_id": step.step_id, "tool_id": step.tool} for step in steps]


def _call(event: Any) -> JsonObject:
    place: JsonObject = {"step_id": event.step_id, "tool_id": event.tool_id, "call_key": event.call_key}
    place |= {
        name: getattr(event, name) for name in ("action_id", "index") if getattr(event, name) is not None
    }
    return place | ({"attempt": event.attempt} if hasattr(event, "attempt") else {})


def _strategy(strategy: Strategy | None) -> JsonObject | None:
    return None if strategy is None else strategy.model_dump(mode="json")


def _fault(error: Fault) -> JsonObject:
    return {"error": error.message, "error_kind": error.kind, "category": error.category}


def _output(output: Any, artifact: Artifact | None) -> JsonObject:
    """What came out, or of what is kept apart how large it is."""
    return (
        {"output": output}
        if artifact is None
        else {"output": {"artifact": artifact.artifact_id, "bytes": artifact.size}}
    )
