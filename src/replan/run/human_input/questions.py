"""Asking a person, and taking in what was said."""

from __future__ import annotations

from typing import Any, Literal

from replan.core.events import OutcomeSettled, QuestionAsked, TaskWaiting
from replan.core.report.explain_doubts import known_about, question_about
from replan.core.secrets import as_seen, reveal_known, secrets_of_schema
from replan.core.state.task import CallState, State
from replan.ports import Tools
from replan.run.session.context import Run


def ask(run: Run, reason: str, text: str, kind: str, background: str = "") -> None:
    """Record a question (unless the text is empty: it was asked before), and that the task waits for a person."""
    known = run.state.mending()
    if text and kind == "outcome":  # all of them at once
        asked = {question.call_key for question in known.questions.values()}
        for key, call in run.state.in_doubt.items():
            if key not in asked:
                _ask(run, "outcome", question_about(call), call, known_about(run.state, call))
    elif text:
        _ask(run, "intervention", text, background=background)
    run.record(
        TaskWaiting(reason=reason, questions=tuple(one.question_id for one in run.state.open_questions()))
    )


def _ask(
    run: Run,
    kind: Literal["outcome", "intervention"],
    text: str,
    call: CallState | None = None,
    background: str = "",
) -> None:
    run.record(
        QuestionAsked(
            question_id=run.parts.ids.new("ask"),
            kind=kind,
            text=text,
            background=background,
            call_key=call.key if call is not None else None,
            step_id=call.step_id if call is not None else None,
        )
    )


def secrets_given(state: State, question: QuestionAsked, output: Any, tools: Tools) -> list[tuple[str, Any]]:
    """What the tool of a call, where it is one of those here, calls secret in what a person says that it gave."""
    call = state.in_doubt.get(question.call_key or "")
    tool = tools.resolve(call.tool_id) if call is not None else None
    return list(secrets_of_schema(tool.output_schema, output)) if tool is not None else []


async def settle(run: Run, question_id: str) -> None:
    """Take in what a person said of a call's outcome: it is done, or may be made again.

    What the tool's schema calls secret in the output is as any such: known here, and in no log, the answer in it included.
    """
    known = run.state.mending()
    question, answer = known.questions[question_id], known.answers[question_id]
    call = run.state.in_doubt[question.call_key or ""]
    said = secrets_given(run.state, question, answer.output, run.parts.tools)
    run.secrets.add_all(said)
    if said and run.secrets.masked(answer.output) is not answer.output:
        await run.redact({})
    output, masked = as_seen(reveal_known(answer.output)) if run.state.hides else (answer.output, False)
    run.record(
        OutcomeSettled(
            call_key=call.key, step_id=call.step_id, action_id=call.slot.action_id, index=call.slot.item,
            attempt=call.attempt, tool_id=call.tool_id, happened=bool(answer.happened), output=output,
            by=answer.by or "a person", masked=masked,
        )
    )  # fmt: skip
