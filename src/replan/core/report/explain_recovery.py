"""Why a task ended after recovery, and what a person is asked, in words."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from replan.core.data.schemas import problems
from replan.core.data.taken_back import asks
from replan.core.events import PlanningStopped, StepReflected
from replan.core.recovery.guard import must_stop
from replan.core.reflection import OverallReflection
from replan.core.report.explain import (
    MODEL_ADVICE,
    advice_for,
    attempts_made,
    judged_failed,
    refusals,
    steps_failed,
)
from replan.core.state.recovery import RoundNote
from replan.core.state.task import State, StepState
from replan.core.types import Failure
from replan.core.words import beginning, one_line

INTERVENTION = "user_intervention_required"
"""The kind of a failure that a person can mend."""


def needs_a_person(state: State) -> Failure:
    """Going on is pointless: why, what was tried, and what a person could do (`errors.UserInterventionRequired`)."""
    reflection = _last_reflection(state)
    known = _what_failed(state)
    barrier = must_stop(state) if state.word != "stop" else None
    causes = reflection.root_causes if reflection is not None else ()
    advice: list[str] = [reflection.ask] if reflection is not None and reflection.ask else []
    advice += [] if reflection is None else reflection.improvement_suggestions[:3]
    if state.escalation is not None and any(map(asks, state.escalation.reason.split("; "))):  # of a diagnosis
        advice.append(beginning(one_line(state.escalation.reason)))
    # what a category of errors lets one think of may be the contrary of what was found
    more = () if reflection is not None and reflection.ask else known.advice
    reason = known.reason
    if state.word == "stop":
        reason += "; a person has said stop"
    elif barrier is not None:
        reason += f"; going on is pointless: {barrier.why}"
    elif reflection is not None and reflection.reflection_text:
        reason += f"; {beginning(one_line(reflection.reflection_text))}"
    return Failure(
        kind=INTERVENTION,
        reason=reason,
        root_causes=tuple(dict.fromkeys([*causes, *known.root_causes])),
        tried=tried(state),
        advice=tuple(dict.fromkeys([*advice, *more])) or ("Say what is to be done differently.",),
        limit=barrier.limit if barrier is not None else None,
        question=reflection.ask if reflection is not None else "",
    )


def reached_by(state: State) -> str:
    """What was reached, in the words of who reflected on the round and ended it; empty where none were written, or the caller wants
    another form."""
    reflection = _last_reflection(state)
    told = reflection.final_output if reflection is not None else ""
    schema = state.policy.output_schema
    return told if told and (schema is None or not problems(schema, told)) else ""


def _last_reflection(state: State) -> OverallReflection | None:
    """The one on this round; where a person has said stop, the one upon which that person was asked."""
    if state.reflection is None and state.word == "stop" and state.recovery is not None:
        return state.recovery.reflection
    return state.reflection.reflection if state.reflection else None


def no_answer_of_the_form(state: State, faults: Sequence[str]) -> Failure:
    """A person has said that the task is done, and there is no answer of the form that its caller wants."""
    return Failure(
        kind="judgement",
        reason=f"a person says that it is done, and there is no answer of the form asked for: {faults[0]}",
        root_causes=tuple(faults[:10]),
        tried=tried(state),
        advice=("Run it again without a form for the answer, or read the steps' outputs.",),
    )


def not_reflected(state: State) -> Failure:
    """The reflector failed: what the round came to, and that nobody could say how to go on."""
    known = _what_failed(state)
    why = state.reflection.reason if state.reflection else ""
    return Failure(
        kind="reflection",
        reason=f"{known.reason}; the reflection failed" + (f": {why}" if why else ""),
        root_causes=(*known.root_causes, *((why,) if why else ())),
        tried=tried(state),
        advice=(*known.advice, "Check that the model for reflection answers, or use a stronger one."),
    )


_NO_PLAN = {
    "cannot": (INTERVENTION, "it cannot be done: {}", "Offer the tools or the facts that it lacks, or ask for something else."),
    "question": (INTERVENTION, "something has to be said first: {}", ""),
    "planning": ("planning", "no plan passed the checks: {}",
                 "Describe the task more precisely, offer the tools it needs, or use a stronger model."),
    "repeats": (INTERVENTION, "{}", ""),
    "model": ("model", "the model gave no usable answer: {}", MODEL_ADVICE),
}  # fmt: skip
"""Why there is no plan: the kind of the failure, what is said, what is advised."""


_REST = 200
"""Characters of what is still to be planned, in a reason."""


def no_plan(state: State, stopped: PlanningStopped) -> Failure:
    """There is no plan, or none anew: why; and what had failed before, which a plan anew was to mend."""
    kind, says, hint = _NO_PLAN[stopped.kind]
    reason, question = says.format(stopped.reason), stopped.reason if stopped.kind == "question" else ""
    causes: tuple[str, ...] = ()
    advice, own = [hint] if hint else [], stopped.violations or (stopped.reason,)
    if state.replanning is not None and state.replanning.continues:
        rest = beginning(one_line(state.replanning.reason), _REST)
        reason = f"the first part is done, and there is no plan for the rest ({rest}): {reason}"
    elif state.replanning is not None:
        known = _what_failed(state)
        reflection = state.recovery.reflection if state.recovery is not None else None
        reason = f"{known.reason}; no new plan was made: {reason}"
        causes = (*(reflection.root_causes if reflection is not None else ()), *known.root_causes)
        advice = [*known.advice, *advice]
        question = question or (reflection.ask if reflection is not None else "")
    return Failure(
        kind=kind,
        reason=reason,
        root_causes=tuple(dict.fromkeys([*causes, *own])),
        tried=(*tried(state), *refusals(state)),
        advice=tuple(dict.fromkeys([*([question] if question else []), *advice])) or (advice_for("unknown"),),
        violations=stopped.violations,
        question=question,
    )


def _what_failed(state: State) -> Failure:
    judged = state.evaluation or (state.recovery.evaluation if state.recovery else None)
    evaluation = judged.evaluation if judged else None
    if any(step.status == "failed" for step in state.steps.values()):
        return steps_failed(state)
    if evaluation is not None:
        return judged_failed(state, evaluation)
    return Failure(kind="step", reason="the result was insufficient", advice=(advice_for("unknown"),))


def tried(state: State) -> tuple[str, ...]:
    """What was tried, in the order in which it was: tries of steps, repairs, and new plans."""
    plans: list[str] = []
    for note in state.recovery.rounds if state.recovery is not None else ():
        if note.strategy:
            changed = f": {note.changes}" if note.changes else ""
            plans.append(f"round {note.number} replanned ({note.strategy}){changed}")
    return tuple(dict.fromkeys([*steps_tried(state), *plans, *attempts_made(state)]))[:50]


def steps_tried(state: State) -> list[str]:
    """Every failed try of a step, and what was done about it, step by step."""
    left = state.recovery.dropped.values() if state.recovery is not None else ()
    steps = [step for step in (*left, *state.steps.values()) if step.healing is not None]
    rewritten = _rewritten(steps)
    return [_try_words(one, rewritten) for step in steps if step.healing for one in step.healing.failures()]


def tried_in(state: State, note: RoundNote) -> list[str]:
    """The failed tries of one round, in the order in which they failed, and what was done about each."""
    rewritten = _rewritten(state.every_step())
    return [_try_words(one, rewritten) for one in note.failed]


def _rewritten(steps: Iterable[StepState]) -> set[int]:
    """The failures after which the step really was written anew (the very events)."""
    return {id(one) for step in steps if step.healing is not None for one in step.healing.rewritten}


def _try_words(one: StepReflected, rewritten: Container[int]) -> str:
    what = {
        "retry_with_params": "so other parameters were tried",
        "retry_with_tool": f"so {one.action.data.get('tool_id')!r} was tried instead",
        "repair_step": "so the step was rewritten"
        if id(one) in rewritten
        else "and no better form of the step was found",
        "replan": "so the task was to be replanned",
    }.get(one.action.type, "")
    at = f" ({one.slot.words()})" if one.slot.words() else ""
    tool = f" ({one.tool_id})" if one.tool_id else ""
    end = f"; {what}" if what else ""
    return f"step {one.step_id!r}{at}{tool} failed: {beginning(one_line(one.error.message))}{end}"


def sentences(*texts: str) -> str:
    """The texts one after the other, each a sentence."""
    kept = [text.strip() for text in texts if text.strip()]
    return " ".join(text if text[-1] in ".!?" else f"{text}." for text in kept)
