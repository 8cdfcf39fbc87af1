"""What a run of AG-UI answers: interrupts that another run ended with. Sent again it is the same answer, and given once."""

from __future__ import annotations

from typing import Any, TypeVar

from ag_ui.core import ResumeEntry
from pydantic import BaseModel, ValidationError

from replan.core.data.strict_json import storable
from replan.core.events import (
    ApprovalResolved,
    CancelRequested,
    Event,
    PlanReviewed,
    QuestionAnswered,
    QuestionAsked,
)
from replan.errors import AnsweredBefore, InputError, NoSuchPart, TaskEnded
from replan.run.access.callers import reader
from replan.run.access.requests import ApprovalAnswer, PlanReview, QuestionAnswer
from replan.run.access.views import WaitingTask
from replan.server.http.calls import Call

M = TypeVar("M", bound=BaseModel)
_UNANSWERED = "its question was left unanswered"
_AT_ONCE = 500


async def answered(call: Call, answers: list[ResumeEntry]) -> tuple[str, int]:
    """Hand on what was answered; the task that goes on, and after which event this run is told of it."""
    tasks = {one.interrupt_id.rpartition("/")[0] for one in answers}
    if len(tasks) != 1 or not (task_id := tasks.pop()):
        raise InputError("resume: answer interrupts of one run at a time, by the ids that it ended with")
    if len({one.interrupt_id for one in answers}) < len(answers):
        raise InputError("resume: an interrupt is answered twice; answer each once")
    after = (await call.cases.task(reader(call.caller), task_id)).last_seq
    waiting = await call.cases.waits(reader(call.caller), task_id)
    asked = {one.waiting_for.id: one for one in waiting}
    for one in answers:
        name = one.interrupt_id.rpartition("/")[2]
        late: AnsweredBefore | TaskEnded | None = None
        if name in asked:
            try:
                await _answer(call, task_id, asked[name], one)
                continue
            except (AnsweredBefore, TaskEnded) as error:  # this very run may have been faster
                late = error
        after = min(after, await _before(call, task_id, name, one, late) - 1)
    return task_id, after


async def _answer(call: Call, task_id: str, waiting: WaitingTask, one: ResumeEntry) -> None:
    cases, caller, name = call.cases, call.caller, waiting.waiting_for.id
    if waiting.waiting_for.kind == "approval":
        await cases.approve(caller, task_id, name, _approval(one))
    elif waiting.review is not None:
        await cases.review(caller, task_id, waiting.review.version, _review(one))
    elif one.status == "cancelled":
        await cases.cancel(caller, task_id, _UNANSWERED)
    else:
        await cases.answer(caller, task_id, name, read(QuestionAnswer, _payload(one), "resume.payload"))


async def _before(
    call: Call, task_id: str, name: str, one: ResumeEntry, late: AnsweredBefore | TaskEnded | None
) -> int:
    """The event that this very answer was taken down with, when it was given before. An error says what is so instead."""
    reads, after, was_asked = reader(call.caller), 0, False
    while page := await call.cases.events(reads, task_id, after=after, limit=_AT_ONCE):
        for record in page:
            match record.event:
                case (
                    ApprovalResolved(approval_id=known)
                    | QuestionAnswered(question_id=known)
                    | PlanReviewed(review_id=known)
                ):
                    if known == name:
                        if _same(record.event, one, call.caller.who):
                            return record.seq
                        raise AnsweredBefore(
                            f"resume: {one.interrupt_id!r} was answered before by {record.event.by or 'somebody'}, and otherwise: "
                            "that answer holds"
                        )
                case QuestionAsked(question_id=known):
                    was_asked = was_asked or known == name
                case CancelRequested(by=who) if one.status == "cancelled" and was_asked:
                    if who == call.caller.who:  # whatever it was said with: the question is left unanswered
                        return record.seq
        after = page[-1].seq
    if late is not None:
        raise late
    raise NoSuchPart(
        f"resume: nothing waits for {one.interrupt_id!r} (any more): answer the interrupts that the last run has ended with"
    )


def _same(event: Event, one: ResumeEntry, who: str) -> bool:
    """Whether what was taken down is this answer, of whoever gives it now."""
    if isinstance(event, ApprovalResolved):
        said = _approval(one)
        changes, wanted = event.parameters or {}, said.parameters or {}
        return (
            (event.by, event.approved, event.reason) == (who, said.approved, storable(said.reason))
            and all(name in wanted and wanted[name] == value for name, value in changes.items())
            and (bool(said.parameters) or not (changes or event.without))
        )
    if isinstance(event, PlanReviewed):
        review = _review(one)
        given = (review.approved, storable(review.reason), review.plan)
        return event.by == who and (event.approved, event.reason, event.plan) == given
    if isinstance(event, QuestionAnswered) and one.status != "cancelled":
        text = read(QuestionAnswer, _payload(one), "resume.payload")
        if event.step_id is not None:  # a value was said in words or as it is
            same = (
                event.output == text.output
                if text.output is not None
                else event.answer == storable(text.text)
            )
            return event.by == who and same
        return (event.by, event.answer, event.output) == (who, storable(text.text), text.output)
    return False


def _payload(one: ResumeEntry) -> dict[str, Any]:
    return one.payload if isinstance(one.payload, dict) else {}


def _approval(one: ResumeEntry) -> ApprovalAnswer:
    """Yes or no to a call."""
    payload = _payload(one)
    if one.status == "cancelled":
        payload = {"approved": False, "reason": str(payload.get("reason", ""))}
    said = read(ApprovalAnswer, payload, "resume.payload")
    if said.approved and said.hash is None:
        raise InputError(
            "resume.payload.hash: a yes is for one call as it was shown: give what the interrupt has in metadata.hash"
        )
    return said


def _review(one: ResumeEntry) -> PlanReview:
    """Yes or no to a plan."""
    payload = _payload(one)
    if one.status == "cancelled":
        payload = {"approved": False, "reason": str(payload.get("reason", ""))}
    said = read(PlanReview, payload, "resume.payload")
    if said.approved and said.hash is None:
        raise InputError(
            "resume.payload.hash: a yes is for one plan as it was shown: give what the interrupt has in metadata.hash"
        )
    return said


def read(model: type[M], given: Any, where: str) -> M:
    """What a run gives, in the form that is asked for."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:100] for part in first["loc"])
        raise InputError(f"{where}.{place}: {first['msg']}") from None
