"""Asking a person, and taking in what was said."""

from __future__ import annotations

from typing import Literal

from replan.core.events import OutcomeSettled, QuestionAsked, TaskWaiting
from replan.run.context import Run


def ask(run: Run, reason: str, text: str, kind: str, call_key: str | None) -> None:
    """Record a question (unless the text is empty: it was asked before), and that the task waits for a person."""
    if text:
        call = run.state.in_doubt.get(call_key) if call_key is not None else None
        what: Literal["outcome", "intervention"] = "outcome" if kind == "outcome" else "intervention"
        run.record(
            QuestionAsked(
                question_id=run.parts.ids.new("ask"), kind=what, text=text, call_key=call_key,
                step_id=call.step_id if call is not None else None,
            )
        )  # fmt: skip
    known = run.state.mending()
    run.record(TaskWaiting(reason=reason, questions=tuple(one.question_id for one in known.open_questions())))


def settle(run: Run, question_id: str) -> None:
    """Take in what a person said of a call's outcome: it is done, or may be made again."""
    known = run.state.mending()
    question, answer = known.questions[question_id], known.answers[question_id]
    call = run.state.in_doubt[question.call_key or ""]
    run.record(
        OutcomeSettled(
            call_key=call.key, step_id=call.step_id, action_id=call.slot.action_id, index=call.slot.item,
            attempt=call.attempt, tool_id=call.tool_id, happened=bool(answer.happened), output=answer.output,
            by=answer.by or "a person",
        )
    )  # fmt: skip
