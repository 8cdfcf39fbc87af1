"""What comes next: the policy of the loop, on one page.

`decide` reads the state and names the next thing to do; something else does it and records what happened.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from replan.core.evaluation.older import older_than_a_change
from replan.core.evaluation.outcome import answer_faults, default_strategy, done_in_substance, satisfied
from replan.core.evaluation.parts import still_open, to_be_planned, unplanned
from replan.core.events import (
    HintGiven,
    JudgementRequested,
    PauseRequested,
    RetryRequested,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskTimedOut,
    Wish,
)
from replan.core.recovery.cut_off import cut_off_steps
from replan.core.recovery.guard import may_reflect, must_stop
from replan.core.reflection import NEW_STEPS, Strategy
from replan.core.report.explain import (
    broken_steps,
    cancelled,
    judged_failed,
    steps_failed,
    steps_left,
    unjudged,
    without_items,
)
from replan.core.report.explain_doubts import outcome_unknown, question_about, with_account
from replan.core.report.explain_people import not_reviewed, plan_refused, refused_words
from replan.core.report.explain_recovery import (
    needs_a_person,
    no_answer_of_the_form,
    no_plan,
    not_reflected,
    reached_by,
    sentences,
)
from replan.core.state.task import State
from replan.core.types import Evaluation, Failure

End: TypeAlias = TaskCompleted | TaskFailed | TaskCancelled | TaskTimedOut


class Stop(NamedTuple):
    """Nothing to do: the task has ended, or waits for a person who has not spoken yet."""


class StartRound(NamedTuple):
    round: int


class SelectTools(NamedTuple):
    """Choose the tools that the plan may use."""


class MakePlan(NamedTuple):
    """Ask for a plan and check it; or check the one that was given."""


class Execute(NamedTuple):
    """Run steps until none can run any more."""


class Evaluate(NamedTuple):
    """Judge the round and write the answer."""


class Reflect(NamedTuple):
    """Say why the round did not do, and whether another one has a point."""


class Replan(NamedTuple):
    """Begin a round with the plan made anew in this way."""

    strategy: Strategy
    reason: str
    continues: bool = False
    """Nothing was wrong: the plan was a first part."""


class ChangePlan(NamedTuple):
    """Make the plan anew as `state.replanning` says."""


class Pause(NamedTuple):
    """Stand still until a person says that it may go on."""

    reason: str


class Take(NamedTuple):
    """Do what a person has asked for; or say why not."""

    request_id: str
    refused: str = ""


class HoldPlan(NamedTuple):
    """Ask a person about the plan, if nobody has been asked yet, and let go of the task until there is an answer."""


class TakeReviewed(NamedTuple):
    """Go by the plan that a person has given in place of the one that was shown."""


class Settle(NamedTuple):
    """Take in what a person said of a call's outcome."""

    question_id: str


class Wait(NamedTuple):
    """Ask a person, and let go of the task until there is an answer. An empty text: it has been asked already."""

    reason: str
    text: str = ""
    kind: str = "intervention"
    background: str = ""


class Finish(NamedTuple):
    event: End


Decision: TypeAlias = (
    Stop | StartRound | SelectTools | MakePlan | HoldPlan | TakeReviewed | Execute | Evaluate | Reflect | Replan | ChangePlan | Pause
    | Take | Settle | Wait | Finish
)  # fmt: skip


def decide(state: State) -> Decision:
    """The next thing to do."""
    if state.outcome is not None:
        return Stop()
    if state.cancel is not None:
        return Finish(TaskCancelled(failure=with_account(state, cancelled(state))))
    if state.waiting is not None:
        return Stop()
    if state.pause is not None:
        return Pause(paused_words(state.pause))
    if state.wishes:
        return Take(state.wishes[0].request_id, why_not(state, state.wishes[0]))
    if state.round == 0:
        return StartRound(1)
    if state.impasse is not None:
        return _ask_or_fail(state, no_plan(state, state.impasse))
    if state.word and (state.plan is None or state.replanning is not None):
        return _ended_by_word(state)
    if state.replanning is not None:
        return SelectTools() if _plans_anew(state) and state.selection is None else ChangePlan()
    if state.plan is None and state.selection is None and not _plan_given(state):
        return SelectTools()
    if state.plan is None:
        return MakePlan()
    if (question := _said(state)) is not None:
        return Settle(question)
    if state.word and not state.in_doubt:
        return _ended_by_word(state)
    if state.open_steps and (state.escalation is None or cut_off_steps(state)):
        held = _held(state)
        return Execute() if held is None else held
    if state.in_doubt:
        return _in_doubt(state)
    if state.escalation is not None and state.escalation.replan and not must_stop(state):
        return Replan(default_strategy(state), state.escalation.advice or state.escalation.reason)
    if state.escalation is None and state.evaluation is None:
        if to_be_planned(state):
            return Replan(Strategy(type="replan_from_step"), still_open(state), continues=True)
        return Reflect() if _is_outdated(state) and state.reflects and may_reflect(state) else Evaluate()
    return _verdict(state)


def rests_on_a_doubt(decision: Decision) -> bool:
    """True if a person is asked, or the task ends, since nobody knows whether a call took effect."""
    if isinstance(decision, Wait):
        return decision.kind == "outcome"
    ends = decision.event if isinstance(decision, Finish) else None
    return isinstance(ends, TaskFailed) and ends.failure.kind == "outcome_unknown"


def paused_words(pause: PauseRequested) -> str:
    """That the task stands still, and why."""
    said = f": {pause.reason}" if pause.reason else ""
    return f"it was paused{f' by {pause.by}' if pause.by else ''}{said}"


def why_not(state: State, wish: Wish) -> str:
    """Why nothing can be done about what a person has asked for; empty if something can."""
    match wish:
        case HintGiven():
            return ""
        case JudgementRequested():
            judged = state.evaluation is not None or (state.recovery is not None and state.recovery.outdated)
            return "" if judged else "nothing of this round has been judged yet"
        case RetryRequested():
            step = state.steps.get(wish.step_id)
            if step is None:
                return f"the plan has no step {wish.step_id!r}"
            if step.status != "failed":
                return f"step {wish.step_id!r} has not failed ({step.status})"
            if doubt := next((call for call in step.calls.values() if call.status == "unknown"), None):
                return f"nobody knows whether its call of {doubt.tool_id!r} took effect: that comes first"
            if step.fault is not None and step.fault.kind in ("rejected", "approval"):
                return "a person has said no to its call"
            return ""


def _plan_given(state: State) -> bool:
    return state.submitted is not None and state.submitted.plan is not None


def _plans_anew(state: State) -> bool:
    """True if the strategy needs new steps, and so tools to make them with."""
    return state.replanning is not None and state.replanning.strategy.type in NEW_STEPS


def _held(state: State) -> Decision | None:
    """What comes before the first step of a plan that a person has to agree to; None if nothing does."""
    if state.may_carry_out:
        return None
    reviews = state.reviews
    asked = reviews.asked if reviews is not None else None
    if reviews is None or asked is None or state.begun is None or asked.plan_version != state.begun.version:
        return HoldPlan()
    if reviews.expired:
        return _failed(state, not_reviewed(state))
    if reviews.said is None:
        return HoldPlan()
    if reviews.said.approved:
        return TakeReviewed()
    if not state.modelled or must_stop(state):
        return _failed(state, plan_refused(state, reviews.said))
    return Replan(default_strategy(state), refused_words(reviews.said))


def _said(state: State) -> str | None:
    """A question about a call in doubt that a person has answered, and whose answer is not taken in yet."""
    if state.recovery is None:
        return None
    for question_id, answer in state.recovery.answers.items():
        question = state.recovery.questions[question_id]
        if question.kind == "outcome" and answer.happened is not None and question.call_key in state.in_doubt:
            return question_id
    return None


def _in_doubt(state: State) -> Decision:
    """Calls of which nobody knows whether they took effect: a person says, or the task ends."""
    reason = "it is not known whether a call took effect"
    questions = state.recovery.questions.values() if state.recovery is not None else ()
    asked = {question.call_key for question in questions}
    if not state.policy.interactive:
        return _failed(state, outcome_unknown(state))
    new = next((call for key, call in state.in_doubt.items() if key not in asked), None)
    if new is None and not _open_questions(state, "outcome"):
        return _failed(state, outcome_unknown(state))  # asked, and the person does not know either
    return Wait(reason, question_about(new) if new is not None else "", "outcome")


def _verdict(state: State) -> Decision:
    judged = state.evaluation
    evaluation = judged.evaluation if judged else None
    if judged is not None and evaluation is None:
        return Finish(TaskFailed(failure=with_account(state, unjudged(state))))
    if judged is not None and evaluation is not None and satisfied(state, evaluation):
        return _completed(state, evaluation, _shortfall(state, evaluation))
    if not state.reflects:
        return _failed(state, _why(state))
    if state.reflection is None:
        return Reflect() if may_reflect(state) else _failed(state, needs_a_person(state))
    reflection = state.reflection.reflection
    if reflection is None:
        return Evaluate() if _is_outdated(state) else _ask_or_fail(state, not_reflected(state))
    if reflection.should_replan:
        strategy = reflection.replanning_strategy or default_strategy(state)
        return Replan(
            strategy, strategy.reason or reflection.reflection_text or "; ".join(reflection.root_causes)
        )
    if evaluation is None and (reflection.done_in_substance or _is_outdated(state)):
        return Evaluate()  # whether it is so the judge says, with all that a person has said
    if reflection.done_in_substance and evaluation is not None and done_in_substance(state, evaluation):
        return _completed(state, evaluation, _shortfall(state, evaluation))
    return _ask_or_fail(state, needs_a_person(state))


def _is_outdated(state: State) -> bool:
    """True if a person has spoken since the round was judged: whether another round is due is the reflector's to say first."""
    return state.evaluation is None and state.recovery is not None and state.recovery.outdated


def _ask_or_fail(state: State, failure: Failure) -> Decision:
    """A person is asked, once for each time that it comes to this, where one can be reached."""
    if not state.policy.interactive:
        return _failed(state, failure)
    if _open_questions(state, "intervention"):
        return Wait(failure.reason)
    question = failure.question or "How is the task to go on?"
    rest = [advice for advice in failure.advice if advice != question]
    return Wait(failure.reason, question, background=sentences(failure.reason, *rest, _WORDS))


_WORDS = "The word done alone ends the task as it is, with what is missing as its shortfall; stop ends it as failed"


def _ended_by_word(state: State) -> Decision:
    """A person has said that the task is to end, or that it is done: what that person says counts, whatever is missing.

    An answer is written first, where there is none yet.
    """
    if state.word == "stop":
        return _failed(state, needs_a_person(state))
    if state.plan is not None and state.evaluation is None:
        return Evaluate()
    evaluation = state.evaluation.evaluation if state.evaluation else None
    answer = evaluation.final_output if evaluation is not None else None
    if faults := answer_faults(state):
        return _failed(state, no_answer_of_the_form(state, faults))
    judged = (
        (*evaluation.failures, *_left_out(state, evaluation))
        if evaluation is not None
        else ("the result was not judged", *steps_left(state))
    )
    rest = (f"still to be planned was: {still_open(state)}",) if still_open(state) else (unplanned(state),)
    missing = tuple(one for one in dict.fromkeys((*judged, *broken_steps(state), *rest)) if one)
    score = evaluation.overall_score if evaluation is not None else None
    artifact = state.evaluation.artifact if state.evaluation else None
    return Finish(TaskCompleted(final_output=answer, artifact=artifact, score=score, shortfall=missing))


def _open_questions(state: State, kind: str) -> bool:
    """True if a person has been asked such a question and has not answered."""
    return state.recovery is not None and any(one.kind == kind for one in state.recovery.open_questions())


def _why(state: State) -> Failure:
    evaluation = state.evaluation.evaluation if state.evaluation else None
    broken = any(step.status == "failed" for step in state.steps.values())
    return judged_failed(state, evaluation) if evaluation is not None and not broken else steps_failed(state)


def _shortfall(state: State, evaluation: Evaluation) -> tuple[str, ...]:
    """What is missing of a success: what the judge found, and what code knows beside that."""
    by_steps = state.evaluation is not None and state.evaluation.by == "steps"  # then code has said it all
    return tuple(dict.fromkeys((*evaluation.failures, *(() if by_steps else _left_out(state, evaluation)))))


def _left_out(state: State, evaluation: Evaluation) -> tuple[str, ...]:
    """The effects that were planned and not had, each with how it is accounted for, the items that the plan did without, and
    what was had before something was changed that it may be made of."""
    told = tuple(one.told for one in evaluation.left_out)
    accounted = {one.step_id for one in evaluation.left_out if one.allowed or one.stand_in}
    items = (
        without_items(step)
        for name, step in state.steps.items()
        if step.status == "succeeded" and step.left_out and name not in accounted
    )
    return (*told, *items, *(one.told for one in older_than_a_change(state) if one.meets))


def _completed(state: State, evaluation: Evaluation, shortfall: tuple[str, ...] = ()) -> Finish:
    artifact = state.evaluation.artifact if state.evaluation else None
    answer, score = evaluation.final_output, evaluation.overall_score
    return Finish(TaskCompleted(final_output=answer, artifact=artifact, score=score, shortfall=shortfall))


def _failed(state: State, failure: Failure) -> Finish:
    return Finish(failed_with(state, failure))


def failed_with(state: State, failure: Failure) -> TaskFailed:
    """The end of a task that did not succeed, with what was reached of its answer, if anybody has written that: the judge of the
    round, else who reflected on it, else the judge of the round before."""
    failure = with_account(state, failure)
    judged = state.evaluation or (state.recovery.evaluation if state.recovery else None)
    evaluation = judged.evaluation if judged else None
    score = evaluation.overall_score if evaluation is not None else None
    answer = evaluation.final_output if evaluation is not None else None
    artifact = judged.artifact if judged is not None and evaluation is not None else None
    if (state.evaluation is None or (answer is None and artifact is None)) and (reached := reached_by(state)):
        answer, artifact = reached, None
    return TaskFailed(failure=failure, final_output=answer, artifact=artifact, score=score)
