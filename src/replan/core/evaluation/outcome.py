"""What a judgement and a reflection on a round come to, and what code allows of it (specification §3 and §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from replan.core.data.schemas import problems
from replan.core.evaluation.effects_had import Resolve
from replan.core.evaluation.parts import still_open
from replan.core.limits.policy import Policy
from replan.core.recovery.guard import must_stop
from replan.core.recovery.strategies import Standing, refusal
from replan.core.reflection import OverallReflection, Strategy
from replan.core.report.judgement import COMPLETE, HALF_RIGHT, contradiction, is_excellent
from replan.core.state.task import Slot, State, StepState, actions_of
from replan.core.types import Evaluation

RIGHT = 80.0
"""Correctness below which nothing is done in substance, however complete."""


def satisfied(state: State, evaluation: Evaluation) -> bool:
    """True if the task is done: the judge says so, by score where every step succeeded, or by excellent correctness.

    A failed step that should have had an effect is fatal: no judgement makes up for it. Nor is a plan that says itself that
    more is to be planned.
    """
    if not evaluation.is_successful or contradiction(state.policy, evaluation) or still_open(state):
        return False
    failed = _failed(state)
    if not failed and evaluation.overall_score >= state.policy.success_threshold:
        return True
    return is_excellent(state.policy, evaluation) and not any(_fatal(step) for step in failed)


def at_odds(policy: Policy, evaluation: Evaluation) -> str:
    """What contradicts what in a judgement, in words for the judge; empty if nothing does.

    A judge that is asked again and contradicts itself still has said no success.
    """
    score, enough = evaluation.overall_score, policy.success_threshold
    match contradiction(policy, evaluation):
        case None:
            return ""
        case "left_out":
            told = "; ".join(
                f"step {one.step_id!r}" + (f" ({one.refused})" if one.refused else "")
                for one in [one for one in evaluation.left_out if one.missing][:10]
            )
            return (
                f"is_successful is true, and left_out_effects does not account for this: {told}. Each is made_good_by a later "
                "step that has taken effect (a reading is none, and each makes good one unless in_one says how it is several), or "
                "by itself where another tool has done the same thing in it, or not_needed with the reason; if it is neither, is_successful is false"
            )
        case "wrong":
            return (
                f"is_successful is true, and wrong_results says: {'; '.join(evaluation.wrong_results)[:300]}: what was done or "
                "answered wrongly is no success; if none of it is wrong, wrong_results is empty"
            )
        case "parts_too_low" if evaluation.dimensions.correctness < HALF_RIGHT:
            return (
                f"is_successful is true with a correctness of {evaluation.dimensions.correctness:g} of 100: where the answer is right, "
                "say so in correctness; where it is not, is_successful is false"
            )
        case "parts_too_low":
            return (
                "is_successful is true with a completeness of 0 of 100: where what was asked for is done, say so in completeness; where it "
                "is not, is_successful is false"
            )
        case "score_too_low":
            return (
                f"is_successful is true with an overall_score of {score:g}, and below {enough:g} a score says that the task is "
                "not done: say which of the two holds by what was run, and put the other right"
            )
        case "score_too_high":
            return (
                f"is_successful is false with an overall_score of {score:g}, and from {enough:g} on a score says that the task is "
                "done: say which of the two holds by what was run, and put the other right"
            )
        case other:
            assert_never(other)


def done_in_substance(state: State, evaluation: Evaluation) -> bool:
    """True if the judge leaves room for it that what is missing needs no further round: it found the result complete
    and right enough, and nothing in it wrong; and no step that matters has failed. Whether it is so the reflector says.
    """
    return (
        (state.evaluation is None or state.evaluation.by == "model")
        and evaluation.dimensions.completeness >= COMPLETE
        and evaluation.dimensions.correctness >= RIGHT
        and contradiction(state.policy, evaluation) is None
        and not evaluation.wrong_results
        and not still_open(state)
        and not any(one.missing for one in evaluation.left_out)
        and not state.open_steps
        and not any(_fatal(step) for step in _failed(state))
        and not answer_faults(state)
    )


def may_be_done(state: State) -> bool:
    """True if a model may judge a round that is not judged yet to be done: nothing waits, and no effect has failed."""
    return (
        state.policy.evaluation == "model"
        and not state.open_steps
        and not still_open(state)
        and not standing_of(state).left_out
        and not any(_fatal(step) for step in _failed(state))
    )


def answer_faults(state: State) -> list[str]:
    """What keeps the answer of the judged round from the form that the caller wants; nothing if no form is wanted.

    An answer that is kept apart has passed: one that had not was left out by the judge's reader.
    """
    schema, judged = state.policy.output_schema, state.evaluation
    if schema is None or (judged is not None and judged.artifact is not None):
        return []
    evaluation = judged.evaluation if judged is not None else None
    return problems(schema, evaluation.final_output if evaluation is not None else None)


def _failed(state: State) -> list[StepState]:
    return [step for step in state.steps.values() if step.status == "failed"]


def _fatal(step: StepState) -> bool:
    """True if the failed step should have had an effect, in whatever form it was; or may have, since it was never called."""
    items = [None] if step.items is None else range(step.items)
    planned = {Slot(action, item) for action in actions_of(step.step) for item in items}
    return not planned <= step.calls.keys() or any(call.effect != "reads" for call in step.every_call())


def violations(proposal: OverallReflection, state: State, resolve: Resolve = lambda _: None) -> list[str]:
    """What is wrong with a reflection on a round, in the order in which it is decided."""
    found = list(_violations(proposal, state))
    if (
        proposal.should_replan
        and not found
        and state.plan is not None
        and proposal.replanning_strategy is not None
    ):
        refused = refusal(state.plan, standing_of(state, resolve), proposal.replanning_strategy)
        found += [f"replanning_strategy cannot be carried out: {refused}"] if refused else []
    return found


def _violations(proposal: OverallReflection, state: State) -> Iterator[str]:
    evaluation = state.evaluation.evaluation if state.evaluation else None
    done = may_be_done(state) if evaluation is None else done_in_substance(state, evaluation)
    if proposal.done_in_substance and (more := still_open(state)):
        yield f"the task is not done in substance: by its plan this is still to be planned: {more[:300]}"
    elif proposal.done_in_substance and not done and evaluation is None:
        yield (
            "it cannot be told yet whether the task is done in substance: the round has not been judged, and a step that matters "
            "has failed or waits; where it is not needed, skip_steps leaves it out (should_replan true), and the rest is judged"
        )
    elif proposal.done_in_substance and not done:
        yield (
            f"the task is not done in substance: that needs a judged completeness and correctness of at least "
            f"{COMPLETE:g}, no result that was found wrong, no failed step that matters (skip_steps leaves out one that is not needed), no effect that was left out and is not accounted for, and an answer of the form asked for"
        )
    if not proposal.should_replan:
        return
    if stop := must_stop(state):
        yield f"should_replan has to be false: {stop.why}"
    elif proposal.done_in_substance and done:
        yield "should_replan and done_in_substance are both true: what is done needs no further round; say which holds"
    elif proposal.problem_nature in ("external", "server") and not _goes_on_without(proposal, state):
        yield (
            f"should_replan has to be false with a problem of nature {proposal.problem_nature}: no plan mends it; "
            "say in `ask` whom to ask for what, or name the nature that another plan does mend"
        )
        if standing_of(state).left_out:
            yield (
                "what was left undone and does not rest on it can be done all the same: by skip_steps, or by replan_from_step with a `reason` "
                "that says what is done without it"
            )
    elif proposal.unread_strategy:
        yield proposal.unread_strategy
    elif proposal.replanning_strategy is None:
        yield "should_replan is true, so replanning_strategy has to say how"


def _goes_on_without(proposal: OverallReflection, state: State) -> bool:
    """True if what nobody here can mend is left aside, and the other work that was left undone because of it is gone on with."""
    strategy = proposal.replanning_strategy
    if strategy is None or not standing_of(state).left_out:
        return False
    return strategy.type == "skip_steps" or (strategy.type == "replan_from_step" and bool(strategy.reason))


def forced(proposal: OverallReflection | None, state: State) -> tuple[OverallReflection | None, str]:
    """What is acted on where a reflection will not do, and why; no reflection at all where it said nothing.

    It is put right where that is plain: a flag that is not true, a strategy that is missing. Else there is no
    further round.
    """
    if proposal is None:
        return None, "the reflection could not be understood"
    changes: dict[str, object] = {}
    evaluation = state.evaluation.evaluation if state.evaluation else None
    done = may_be_done(state) if evaluation is None else done_in_substance(state, evaluation)
    if proposal.done_in_substance and (proposal.should_replan or not done):
        changes["done_in_substance"] = False
    mended = proposal.model_copy(update=changes)
    if proposal.should_replan and proposal.replanning_strategy is None:
        mended = mended.model_copy(
            update={"replanning_strategy": default_strategy(state), "unread_strategy": ""}
        )
    if left := list(_violations(mended, state)):  # a strategy that cannot be carried out falls back later
        return mended.model_copy(update={"should_replan": False, "replanning_strategy": None}), left[0]
    return mended, "it was put right"


def default_strategy(state: State) -> Strategy:
    """Go on from what failed where something has succeeded; else begin anew."""
    standing = standing_of(state)
    if not standing.succeeded:
        return Strategy(type="full_replan")
    first = next((name for name in state.steps if name in standing.failed), None)
    return Strategy(type="replan_from_step", step_id=first)


def standing_of(state: State, resolve: Resolve = lambda _: None) -> Standing:
    """Where the steps of the plan stand. `resolve`: the tools, where it matters what has an effect."""
    left_out = frozenset(
        name
        for name, step in state.steps.items()
        if step.status == "skipped" and step.skip is not None and step.skip.kind != "condition"
    )
    return Standing(
        frozenset(name for name, step in state.steps.items() if step.status == "succeeded"),
        frozenset(name for name, step in state.steps.items() if step.status == "failed"),
        left_out,
        frozenset(name for name, step in state.steps.items() if _has_effect(step, resolve)),
        frozenset(name for name, step in state.steps.items() if _is_repeated(step)),
    )


def _is_repeated(step: StepState) -> bool:
    return step.status == "failed" and step.fault is not None and step.fault.kind == "repeated"


def _has_effect(step: StepState, resolve: Resolve) -> bool:
    names = [one.tool for one in step.step.actions] or [step.step.tool]
    return any((tool := resolve(name)) is not None and tool.effect != "reads" for name in names)
