"""What people answer: the first answer counts, and no other one comes into the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from replan.core.calls.site import slot_of
from replan.core.data.strict_json import joined, storable
from replan.core.events import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionAsked
from replan.core.ids import canonical
from replan.core.state.human_input import NoOutcome, outcome_of
from replan.core.state.task import State
from replan.core.types import JsonObject
from replan.core.waits.questions import MOST_BYTES, answer_problem, read_answer
from replan.core.words import in_digits
from replan.errors import AnsweredBefore, InputError, NoSuchPart
from replan.run.calls.rivals import made_elsewhere
from replan.run.human_input.edits import edit_of
from replan.run.human_input.questions import secrets_given
from replan.run.service.people.interventions import ended
from replan.run.service.results import open_approvals
from replan.run.service.submission import json_size
from replan.run.session.dependencies import Parts
from replan.run.session.outputs import read_back
from replan.run.session.pages import folded
from replan.run.session.said import say_first

A = TypeVar("A")
_EMPTY = "the answer is empty: say in words what the question asks for"


async def resolve_approval(
    parts: Parts,
    task_id: str,
    approval_id: str | None,
    *,
    approved: bool,
    reason: str,
    parameters: JsonObject | None,
    by: str,
) -> ApprovalRequested:
    """Agree to a call, or not; with `parameters`, laid over those that are shown, to that call with others.

    The call that was agreed to, as it will be made.
    """
    state = await folded(parts.store, task_id)
    asked = open_approval(state, approval_id)
    json_size("parameters", parameters)
    edit = None if parameters is None else edit_of(asked, parameters)
    made = asked.parameters if edit is None else edit.over(asked.parameters)
    event = ApprovalResolved(
        approval_id=asked.approval_id,
        approved=approved,
        reason=storable(reason),
        parameters=edit.changes if edit is not None and (edit.changes or edit.without) else None,
        without=edit.without if edit is not None else (),
        by=by,
    )

    def check(state: State) -> None:
        open_approval(state, asked.approval_id)
        if edit is not None:
            _check_made_once(parts, state, asked, made)

    await say_first(parts, state, event, check)
    return asked.model_copy(update={"parameters": made})


async def approval(
    parts: Parts, task_id: str, approval_id: str | None, parameters: JsonObject | None
) -> ApprovalRequested:
    """A call that waits for a yes, in full: large values whole, secrets masked. With `parameters`: as it would be with these."""
    asked = open_approval(await folded(parts.store, task_id), approval_id)
    changed = asked.parameters if parameters is None else edit_of(asked, parameters).over(asked.parameters)
    whole = {
        name: await read_back(await parts.store.artifact(task_id, artifact_id))
        for name, artifact_id in asked.kept.items()
        if name in changed and changed[name] == asked.parameters[name]
    }
    return asked.model_copy(update={"parameters": {**changed, **whole}})


async def answer(
    parts: Parts, task_id: str, text: str, question_id: str | None, *, output: Any, by: str
) -> QuestionAsked:
    """Answer a question; `question_id` may be the step whose question it is.

    Whether a call took effect is answered yes, no or cannot tell; `output` is then what it gave. A step's question is answered with
    a value that fits it: in words, or as it is, in `output`.
    """
    size = json_size("output", {"output": output})
    if not text.strip() and output is None:
        raise InputError(_EMPTY)
    state = await folded(parts.store, task_id)
    asked = open_question(state, question_id)
    if not text.strip() and asked.kind != "question":
        raise InputError(_EMPTY)
    if asked.kind == "question":
        event = _typed(asked, text, output, by, size)
    else:
        event = _in_words(asked, text, output, by)
    secrets = secrets_given(state, asked, output, parts.tools)
    await say_first(parts, state, event, lambda state: open_question(state, asked.question_id), secrets)
    return asked


def _in_words(asked: QuestionAsked, text: str, output: Any, by: str) -> QuestionAnswered:
    try:
        happened = outcome_of(text) if asked.kind == "outcome" else None
    except NoOutcome as error:
        raise InputError(str(error)) from None
    if output is not None and happened is not True:
        raise InputError("an output goes with the answer that the call took effect: yes")
    return QuestionAnswered(
        question_id=asked.question_id, answer=storable(text), happened=happened, output=output, by=by
    )


def _typed(asked: QuestionAsked, text: str, output: Any, by: str, size: int) -> QuestionAnswered:
    """The answer to a step's question, which fits what the step has asked for."""
    if output is not None and text.strip():
        raise InputError("the answer is given twice: in words, or as a value in `output`, not both")
    if max(size, len(text)) > MOST_BYTES:
        raise InputError(f"the answer is too large; at most {in_digits(MOST_BYTES)} bytes are allowed")
    try:
        text = joined(text)  # half of a sign would go on as another one
        value = read_answer(asked.answer_schema, text) if output is None else output
    except ValueError as error:
        raise InputError(str(error)) from None
    if output is not None and (problem := answer_problem(asked.answer_schema, output)):
        raise InputError(problem)
    said = text if output is None else canonical(output)
    return QuestionAnswered(
        question_id=asked.question_id, answer=said, output=value, by=by, step_id=asked.step_id
    )


def open_approval(state: State, approval_id: str | None) -> ApprovalRequested:
    """An approval that waits for its answer; None: the only one. An error says why there is none of that id."""
    check_goes_on(state)
    open_ = {one.approval_id: one for one in open_approvals(state)}
    if approval_id is not None and approval_id not in open_:
        _check_not_resolved(state, approval_id)
    return _one_of(open_, approval_id, state.task_id, "approval")


def open_question(state: State, question_id: str | None) -> QuestionAsked:
    """The same of a question, which may be named by the step that has asked it."""
    check_goes_on(state)
    open_ = {one.question_id: one for one in state.open_questions()}
    if question_id is not None and question_id not in open_:
        _check_not_answered(state, question_id)
        theirs = state.asked_by(question_id)
        of_step = {name: one for name, one in open_.items() if one.step_id == question_id or name in theirs}
        if of_step:
            return _one_of(of_step, None, state.task_id, "question")
    return _one_of(open_, question_id, state.task_id, "question")


def _check_not_answered(state: State, question_id: str) -> None:
    """`AnsweredBefore` says what has become of a question that is open no more, by its id or by its step's."""
    known = state.recovery
    if known is None:
        return
    asked = known.questions.get(question_id)
    of_step = [one for one in known.questions.values() if one.step_id == question_id]
    if asked is None and of_step and not any(one.question_id not in known.answers for one in of_step):
        asked = of_step[-1]
    if asked is None:
        return
    if (said := known.answers.get(asked.question_id)) is not None:
        raise AnsweredBefore(f"question {question_id!r} was answered before by {said.by or 'somebody'}")
    if asked.kind == "question" and asked.question_id == question_id:
        raise AnsweredBefore(
            f"question {question_id!r} is not asked any more: its step waits for no answer now"
        )


def check_goes_on(state: State) -> None:
    """`TaskEnded` for a task that does not."""
    if state.ended:
        raise ended(state.task_id, state.status)


def _check_not_resolved(state: State, approval_id: str) -> None:
    """`AnsweredBefore` says what has become of an approval that is open no more."""
    known = state.recovery
    asked = None if known is None else known.requests.get(approval_id)
    if known is None or asked is None:
        return
    if approval_id in known.expired:
        raise AnsweredBefore(
            f"approval {approval_id!r} is not asked for any more: nobody had answered in time"
        )
    said = known.approvals.get(asked.call_key)
    if said is None or said.approval_id != approval_id:
        raise AnsweredBefore(f"approval {approval_id!r} is not asked for any more: the task went another way")
    how = "agreed to" if said.approved else "rejected"
    raise AnsweredBefore(f"approval {approval_id!r} was {how} before by {said.by or 'somebody'}")


def _check_made_once(parts: Parts, state: State, asked: ApprovalRequested, made: JsonObject) -> None:
    """`InputError` if the call, as a person has changed it, is one that another step makes: it would not be made."""
    step, tool = state.steps.get(asked.step_id), parts.tools.resolve(asked.tool_id)
    if step is None or tool is None:
        return
    slot = slot_of(asked.action_id, asked.index)
    if place := made_elsewhere(step, slot, tool, made, state, parts.tools):
        raise InputError(
            f"{place} makes this very call of {tool.id!r} already, or is to make it, so that this one would not be made: "
            "agree to the call as shown, give other parameters, or reject it"
        )


def _one_of(open_: Mapping[str, A], wanted: str | None, task_id: str, what: str) -> A:
    """What is answered; an error says what could be."""
    if wanted is None and len(open_) == 1:
        return next(iter(open_.values()))
    if wanted is not None and wanted in open_:
        return open_[wanted]
    there = ", ".join(open_) or "none"
    if wanted is None and open_:
        raise InputError(f"task {task_id!r} has several open {what}s, name one: {there}")
    named = f"no open {what} {wanted!r:.200}" if wanted is not None else f"no open {what}"
    raise NoSuchPart(f"task {task_id!r} has {named}; open: {there}")
