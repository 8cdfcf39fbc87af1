"""Recovery in plain words: a sentence for each event that says what failed, what was tried, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replan.cli.terminal.words import clean
from replan.core import events as e
from replan.core.events import Record
from replan.core.limits.outlook import outlook_words
from replan.core.reflection import Strategy, SuggestedAction
from replan.core.tools.versions import in_words
from replan.core.types import Evaluation
from replan.core.words import in_digits, some, text_of

_CATEGORIES = {
    "parameter_error": "wrong parameters",
    "tool_error": "the tool cannot do it",
    "dependency_error": "an input is not what was expected",
    "decomposition_error": "the step does not fit the task",
    "server_error": "the service behind it failed",
    "external_error": "out of our reach",
    "unknown": "cause not clear",
}
_STRATEGIES = {
    "full_replan": "a whole new plan",
    "replan_from_step": "a new plan from {step_id} on",
    "skip_steps": "without {step_ids}",
    "add_remediation_steps": "with steps to be done before what failed",
    "adjust_dependencies": "in another order",
}


def sentence(event: e.AnyEvent) -> str | None:
    """What the event says of recovery; None if nothing."""
    match event:
        case e.PreviousTasksRead():
            told = [f"{one.task_id} ({one.status})" for one in event.tasks]
            return f"it follows {some(told, 3)}"
        case e.StepReflected():
            return _reflected(event)
        case e.StepRepaired():
            return f"{event.step.step_id} was rewritten: {_changed(event)}"
        case e.OverallReflectionTriggered(replan=True):
            return f"replanning is asked for: {event.advice or event.reason}"
        case e.OverallReflectionTriggered():
            at = f"{event.step_id} could not be recovered" if event.step_id else "reflecting on the round"
            return f"{at}: {event.reason}"
        case e.ReflectionCompleted():
            return _round(event)
        case e.ReplanningStarted(refused=Strategy() as refused):
            return f"{strategy_words(refused)} was rejected ({event.why_refused}); instead: {strategy_words(event.strategy)}"
        case e.ReplanningStarted(continues=True):
            return f"that part is done; still to be planned: {event.reason}"
        case e.ReplanningStarted():
            return f"replanning: {strategy_words(event.strategy)}" + (
                f" ({event.reason})" if event.reason else ""
            )
        case e.PlanningStopped():
            return f"no plan was made: {event.reason}"
        case e.PlanUpdated():
            return f"plan {event.plan.version}: {event.diff.words() or 'no steps'}"
        case e.VersionsChanged():
            return _versions(event)
        case e.TaskLeft():
            return "its process ends in good order: another one goes on with it"
        case e.CallFailed(retry_in_secs=float() as secs) if event.error.kind != "cancelled":
            return (
                f"{_place(event)} ({event.tool_id}) failed: {event.error.message}; retrying in {secs:.3g} s "
                f"(try {event.attempt + 1})"
            )
        case e.OutcomeUnknown():
            return f"{_place(event)}: nobody knows whether {event.tool_id} took effect: {event.reason}"
        case e.OutcomeSettled():
            said = "took effect" if event.happened else "did not take effect"
            return f"{_place(event)}: {event.tool_id} {said}" + (f", says {event.by}" if event.by else "")
        case _:
            return _of_people(event)


def _of_people(event: e.AnyEvent) -> str | None:
    match event:
        case e.ApprovalRequested():
            item = f" for {short(event.item, 120)}" if event.item is not None else ""
            call = f"{event.tool_id}({short(event.parameters, 120)})"
            return f"{_place(event)}: may {call} be called{item}? ({event.approval_id})"
        case e.ApprovalResolved():
            who = event.by or "a person"
            if not event.approved:
                return f"{who} rejected the call ({event.approval_id})" + (
                    f": {event.reason}" if event.reason else ""
                )
            return f"{who} approved the call ({event.approval_id})" + (
                " with other parameters" if event.parameters else ""
            )
        case e.ApprovalExpired():
            return f"nobody has answered in time whether the call may be made ({event.approval_id})"
        case e.PlanReviewRequested():
            return f"may plan {event.plan_version} be carried out? {outlook_words(event.outlook)} ({event.review_id})"
        case e.PlanReviewed():
            how = "agreed to the plan" if event.approved else "rejected the plan"
            how = "gave another plan" if event.approved and event.plan is not None else how
            return f"{event.by or 'a person'} {how}" + (f": {event.reason}" if event.reason else "")
        case e.PlanReviewExpired():
            return "nobody has answered in time whether the plan may be carried out"
        case e.QuestionAsked():
            return f"question {event.question_id}: {event.text}"
        case e.QuestionAnswered():
            return f"{event.by or 'a person'} answered {event.question_id}: {event.answer}"
        case e.TaskWaiting():
            asks = bool(event.approvals or event.questions or event.reviews)
            return f"waiting for a person: {event.reason}" if asks else f"waiting: {event.reason}"
        case e.CallbackReceived():
            return f"{event.by or 'somebody outside'} used the callback {event.token}"
        case e.BudgetWarning():
            return f"{event.limit}: {in_digits(event.used)} of {in_digits(event.allowed)} used"
        case _:
            return _of_interventions(event)


def _of_interventions(event: e.AnyEvent) -> str | None:
    match event:
        case e.TaskForked():
            kept = "with its history up to there" + (f"; hint: {event.hint}" if event.hint else "")
            return f"{_who(event.by)} forked this from event {event.at} of {event.origin}, {kept}{_why(event.reason)}"
        case e.ForkMade():
            return f"{_who(event.by)} made the fork {event.fork} from event {event.at}{_why(event.reason)}"
        case e.PauseRequested():
            return f"{_who(event.by)} paused the task{' at once' if event.now else ''}{_why(event.reason)}"
        case e.ResumeRequested():
            return f"{_who(event.by)} resumed the task{_why(event.reason)}"
        case e.HintGiven():
            return f"{_who(event.by)} gave a hint: {event.hint}"
        case e.RetryRequested():
            return f"{_who(event.by)} wants {event.step_id} tried again{_why(event.reason)}"
        case e.JudgementRequested():
            return f"{_who(event.by)} wants another judgement" + (f": {event.hint}" if event.hint else "")
        case e.RequestTaken(refused=str() as refused) if refused:
            return f"what was asked for is not done: {refused}"
        case e.CallCompleted(of_task=str() as other) if other:
            return (
                f"{_place(event)}: task {other}, of the same history, has made this call; its output is used"
            )
        case _:
            return None


def _who(by: str) -> str:
    return by or "a person"


def _why(reason: str) -> str:
    return f": {reason}" if reason else ""


def _versions(event: e.VersionsChanged) -> str:
    said = [in_words(one.tool_id, one.what) for one in event.tools]
    if event.before != event.made_with.replan:
        said.insert(0, f"Replan was {event.before or 'another one'} and is {event.made_with.replan}")
    text = "since the plan was made: " + ("; ".join(said) or "the prompts have changed")
    return f"{text}; what no longer fits: {', '.join(event.unfit)}" if event.unfit else text


def _reflected(event: e.StepReflected) -> str:
    place = _place(event)
    if not event.fresh:
        return f"{place}: after a reading: {action_words(event.action)}"
    cause = event.proposal.root_cause if event.proposal is not None and event.proposal.root_cause else ""
    category = event.proposal.root_cause_category if event.proposal is not None else event.error.category
    text = f"{place} ({event.tool_id}) failed: {event.error.message}"
    text += f"; diagnosis: {_CATEGORIES[category]}" + (f", {cause}" if cause else "")
    done = action_words(event.action)
    if event.by == "model":
        return f"{text}; so {done}"
    refused = event.proposal.suggested_action if event.proposal is not None else None
    if refused is not None:
        return f"{text}; {action_words(refused)} was proposed and rejected ({event.reason}); so {done}"
    return f"{text}; {event.reason}; so {done}" if event.reason else f"{text}; so {done}"


def action_words(action: SuggestedAction) -> str:
    """The remedy in words."""
    match action.type:
        case "retry_with_params":
            return f"tried again with {short(action.data, 160)}"
        case "retry_with_tool":
            return f"tried with {action.data.get('tool_id')} instead"
        case "repair_step":
            return "the step is being rewritten"
        case "replan":
            return "a new plan is asked for"
        case "verify_outcome":
            return f"looked up with {action.data.get('tool_id')}"
        case "settle_outcome":
            return "it took effect" if action.data.get("happened") else "it did not take effect"
        case _:
            return "the whole round is reflected on"


def _round(event: e.ReflectionCompleted) -> str:
    made = event.reflection
    if made is None:
        return f"the reflection on the round was invalid: {event.reason}"
    text = f"reflection on the round (problem: {made.problem_nature}): {made.reflection_text or '; '.join(made.root_causes)}"
    if made.should_replan:
        return f"{text}; another round"
    forced = f" ({event.reason})" if event.by == "code" and event.reason else ""
    return f"{text}; no further round{forced}"


def strategy_words(strategy: Strategy) -> str:
    """The strategy in words."""
    text = _STRATEGIES[strategy.type]
    if strategy.type == "replan_from_step" and not strategy.step_id:
        return "a new plan for what is left"
    return text.format(step_id=strategy.step_id, step_ids=", ".join(strategy.step_ids))


def _changed(event: e.StepRepaired) -> str:
    fields = ", ".join(name for change in event.diff.changed for name in change.fields)
    return f"{fields or 'nothing'} changed" + (f" ({event.hint})" if event.hint else "")


def _place(event: Any) -> str:
    action = f".{event.action_id}" if event.action_id else ""
    item = f" item {event.index + 1}" if event.index is not None else ""
    return f"{event.step_id}{action}{item}"


def short(value: Any, limit: int) -> str:
    """A value on one line."""
    return clean(text_of(value), limit)


def story(records: Iterable[Record]) -> list[str]:
    """What recovery did, in order, each round under its number; empty if everything went well at once."""
    lines: list[str] = []
    round_told = 1
    for record in records:
        event = record.event
        text = sentence(event)
        if (
            isinstance(event, e.EvaluationCompleted)
            and event.evaluation is not None
            and (lines or record.round > 1)
        ):
            text = f"judged {score_words(event.evaluation)}"
        if text is None:
            continue
        if record.round > round_told:
            lines.append(f"round {record.round}:")
            round_told = record.round
        lines.append(f"- {clean(text, 1_000)}")
    return lines


def score_words(judged: Evaluation) -> str:
    """The score, or why there is none to speak of."""
    return "of another form than was asked for" if judged.wrong_form else f"{judged.overall_score:g} of 100"
