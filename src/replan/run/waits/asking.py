"""A step's question to a person: asked once for each call, and answered in the log."""

from __future__ import annotations

from replan.core.events import CallFailed, QuestionAnswered, QuestionAsked
from replan.core.ids import base_of
from replan.core.state.recovery import Recovery
from replan.core.state.task import State
from replan.core.types import Fault
from replan.core.waits.moments import limit_problem
from replan.core.waits.questions import answer_schema, question_problems
from replan.core.waits.state import Wait
from replan.core.words import beginning
from replan.run.calls.build import Call
from replan.run.session.context import Run

_SHOWN = 300
"""Characters of a question in the reason of a failure."""


def ask(run: Run, call: Call) -> str:
    """The id of the call's question, which is recorded unless it stands there; empty where nobody can be asked: then the call has failed.

    `ValueError` says what is wrong with what it was given, now that it is whole.
    """
    known = run.state.mending()
    given = call.parameters
    asked = _asked_already(run.state, known, call)
    if asked is None:
        if problem := limit_problem(given) or next(question_problems(given, whole=True), ""):
            raise ValueError(problem)
        asked = QuestionAsked(
            question_id=run.parts.ids.new("ask"),
            kind="question",
            text=str(given["question"]),
            call_key=call.key,
            step_id=call.step.step_id,
            index=call.slot.item,
            answer_schema=answer_schema(given),
        )
        run.record(asked)
    if run.state.policy.interactive:
        return asked.question_id
    text = f"a person has to answer, and nobody can be asked here: {beginning(asked.text, _SHOWN)}"
    fault = Fault(category="external_error", kind="question", message=text)
    run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=None))
    return ""


def _asked_already(state: State, known: Recovery, call: Call) -> QuestionAsked | None:
    """The question of this call, or the very same one of another that waits for its answer, too: nobody is asked twice at once."""
    like = f"{base_of(call.key)}."
    open_ = [
        one
        for one in known.questions.values()
        if one.kind == "question"
        and (one.call_key or "").startswith(like)
        and one.question_id not in known.answers
    ]
    own = next((one for one in open_ if one.call_key == call.key), None)
    if own is not None or not state.policy.interactive:
        return own or next(iter(open_), None)
    return next(filter(state.still_asks, open_), None)


def answer_to(state: State, wait: Wait) -> QuestionAnswered | None:
    """What was said to the question that the call waits for."""
    known = state.recovery
    return known.answers.get(wait.token) if known is not None else None
