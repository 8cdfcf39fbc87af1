"""What people are asked, what they say, and what is waited for: a handler for each kind, as in `core.state.task`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core import events as e
from replan.core.calls.site import slot_of
from replan.core.ids import base_of, canonical
from replan.core.state.human_input import Said, word_of
from replan.core.state.made_instead import CHANGED
from replan.core.state.progress import CallState
from replan.core.state.recovery import Edited, Reviews
from replan.core.state.step_recovery import Healing, Override
from replan.core.state.task import State


def _approval_requested(state: State, event: e.ApprovalRequested, ts: float) -> None:
    known = state.mending()
    known.requests[event.approval_id] = event
    known.asked[event.call_key] = event
    place = event.step_id, slot_of(event.action_id, event.index)
    known.latest[place] = event.approval_id
    state.ledger.occupy(event.call_key, place)  # a restart gives it no other number


def _approval_resolved(state: State, event: e.ApprovalResolved, ts: float) -> None:
    if state.ended:  # it came as the end was on its way to the log: an ended task never changes
        return
    state.waiting = None  # a second answer too: what is still open is waited for anew
    known = state.mending()
    asked = known.requests.get(event.approval_id)
    if asked is None or asked.call_key in known.approvals or event.approval_id in known.expired:
        return
    known.approvals[asked.call_key] = event
    if not event.approved and asked.effect != "reads":
        refused(state)
    if (answer := _about_approval(asked, event)) is not None:
        known.hear(answer)
    step = state.steps.get(asked.step_id)
    slot = slot_of(asked.action_id, asked.index)
    asked_since = known.latest.get((asked.step_id, slot)) != event.approval_id
    if event.approved and event.parameters is not None and step is not None and not asked_since:
        if step.healing is None:
            step.healing = Healing()
        before = step.healing.overrides.get(slot) or Override()
        kept = {name: value for name, value in before.parameters.items() if name not in event.without}
        edited = Override(
            asked.tool_id, {**kept, **event.parameters}, before.whole, (*before.without, *event.without)
        )
        step.healing.overrides[slot] = edited
        step.healing.changed[base_of(asked.call_key)] = slot
        state.failures += 1
        if asked.effect == "once":  # what is written in these words later is this one
            meant = CallState(
                asked.call_key, asked.step_id, slot, asked.tool_id, 0, "once", asked.parameters, "failed",
                fault=CHANGED, started=ts, first=ts, ended=ts, plan=state.plans,
            )  # fmt: skip
            state.made.setdefault(asked.tool_id, []).append(meant)
        kept = {name: value for name, value in asked.parameters.items() if name not in event.without}
        seals = {
            name: one for name, one in asked.seals.items() if name in kept and name not in event.parameters
        }
        known.edited[asked.step_id, slot] = Edited(asked.tool_id, {**kept, **event.parameters}, seals)
        state.ledger.vacate(asked.call_key, (asked.step_id, slot))


def _approval_expired(state: State, event: e.ApprovalExpired, ts: float) -> None:
    known = state.mending()
    known.expired.add(event.approval_id)
    asked = known.asked.get(event.call_key)
    if asked is not None and asked.approval_id == event.approval_id:
        del known.asked[event.call_key]  # whoever means it later asks anew
    known.lapsed[event.step_id, slot_of(event.action_id, event.index)] = event.call_key


def _about_approval(asked: e.ApprovalRequested, event: e.ApprovalResolved) -> Said | None:
    """What a rejection or a change says beyond a yes or no; None for a plain yes."""
    question = f"may {asked.tool_id} be called in {asked.step_id} with {canonical(asked.parameters)}?"
    if not event.approved:
        return Said(question, f"no: {event.reason}" if event.reason else "no", event.by)
    changes = [f"with {canonical(event.parameters)}"] if event.parameters else []
    changes += [f"without {', '.join(event.without)}"] if event.without else []
    return Said(question, f"yes, {' and '.join(changes)}", event.by) if changes else None


def _asked(state: State, event: e.QuestionAsked, ts: float) -> None:
    state.mending().questions[event.question_id] = event


def _answered(state: State, event: e.QuestionAnswered, ts: float) -> None:
    if state.ended:
        return
    state.waiting = None
    known = state.mending()
    question = known.questions.get(event.question_id)
    if question is None or event.question_id in known.answers:
        return
    known.answers[event.question_id] = event
    if question.kind == "question":
        return  # it is what its step gives, and no word about the task
    known.hear(Said(question.text, event.answer, event.by))
    if question.kind == "intervention":
        state.impasse = None
        known.word = word_of(event.answer)
        note = known.note(state.round)
        note.news = note.better = note.heard = True  # a person's word is something new
        state.reflection = None
        if known.word != "stop" and state.evaluation is not None and state.evaluation.by == "model":
            known.evaluation, known.outdated = state.evaluation, True  # made without that answer
            state.evaluation = state.escalation = None  # what was judged so called for the reflection


def _waiting(state: State, event: e.TaskWaiting, ts: float) -> None:
    state.ledger.waits += 1
    state.fruitless = -1  # it was driven to here: whoever takes it up again, and whatever was said meanwhile, that is not for nothing
    if event.paused:
        waits = state.pause is not None
    else:
        to_do = any(not isinstance(wish, e.HintGiven) for wish in state.wishes)
        waits = (event.until_resumed or _is_open(state, event)) and not to_do
    if state.cancel is None and waits:
        state.waiting = event  # else the answer came just before


def _is_open(state: State, event: e.TaskWaiting) -> bool:
    """True if nothing of what is waited for has come."""
    if not state.callbacks.keys().isdisjoint(event.callbacks):
        return False
    if event.reviews and ((asked := state.open_review()) is None or asked.review_id not in event.reviews):
        return False
    known = state.recovery
    if known is not None:
        approvals = {one.approval_id for one in known.open_approvals()}
        questions = {one.question_id for one in state.open_questions()}
        if not (approvals.issuperset(event.approvals) and questions.issuperset(event.questions)):
            return False
    return bool(
        event.approvals or event.questions or event.reviews or event.callbacks or event.until is not None
    )


def refused(state: State) -> None:
    """An effect has not got the yes that it needs: a person has said no, or nobody could be asked."""
    known = state.mending()
    known.refused_in = known.refused_in or state.plans


def _review_requested(state: State, event: e.PlanReviewRequested, ts: float) -> None:
    _reviews(state).ask(event)


def _reviewed(state: State, event: e.PlanReviewed, ts: float) -> None:
    if state.ended:  # it came as the end was on its way to the log
        return
    state.waiting = None
    reviews = _reviews(state)
    asked = reviews.open()
    if asked is None or asked.review_id != event.review_id:
        return
    reviews.said = event
    if event.approved and event.plan is None:
        reviews.agreed = asked.plan_version
    question = f"may plan {asked.plan_version} be carried out?"
    if not event.approved:
        known = state.mending()
        known.hear(Said(question, f"no: {event.reason}" if event.reason else "no", event.by))
        known.note(state.round).news = True  # what a person says is something new
    elif event.plan is not None or event.reason:
        changed = "yes, as changed" if event.plan is not None else "yes"
        state.mending().hear(
            Said(question, f"{changed}: {event.reason}" if event.reason else changed, event.by)
        )


def _review_expired(state: State, event: e.PlanReviewExpired, ts: float) -> None:
    reviews = _reviews(state)
    asked = reviews.open()
    if asked is not None and asked.review_id == event.review_id:
        reviews.expired = True


def _reviews(state: State) -> Reviews:
    if state.reviews is None:
        state.reviews = Reviews()
    return state.reviews


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    e.ApprovalRequested: _approval_requested,
    e.ApprovalResolved: _approval_resolved,
    e.ApprovalExpired: _approval_expired,
    e.QuestionAsked: _asked,
    e.QuestionAnswered: _answered,
    e.PlanReviewRequested: _review_requested,
    e.PlanReviewed: _reviewed,
    e.PlanReviewExpired: _review_expired,
    e.TaskWaiting: _waiting,
}
