"""What is said beside an action that makes a call, or settles one, and may say otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replan.core.data.for_readers import NOTHING
from replan.core.data.nothing import begins_with_no
from replan.core.data.taken_back import Beside, said_beside
from replan.core.plan.fields import INSTEAD_OF_STEPS
from replan.core.reflection import RETRIES, ActionType
from replan.core.types import JsonObject
from replan.reasoning.diagnosis.action_names import (
    ACTION_FIELDS,
    ACTIONS,
    PARAMETERS,
    STEP_FIELDS,
    TOOL_ID,
    action_in,
    names_another,
    word_and_data,
)
from replan.reasoning.diagnosis.cause import OUTSIDE, category, confidence
from replan.reasoning.diagnosis.read_settlement import HAPPENED, beside_settlement, happened_in
from replan.reasoning.prompting.noes import CONDITIONS, STOPPING, asks_first, says_no, wants_leave
from replan.reasoning.prompting.read_values import fold, inside, named, opened, spoken, text, truth

CALLING: frozenset[ActionType] = RETRIES | {"repair_step"}
"""After these the failed step is called again."""
WORDS: dict[ActionType, str] = {
    "repair_step": "hint",
    "replan": "advice",
    "trigger_overall_reflection": "summary",
}
"""Actions whose data are one text, and what it is called."""
_SHOWN = 500
"""Characters of what is asked, or said: it is handed on."""
TEXT_NAMES = ("hint", "advice", "summary", "reason", "text", "message", "description", "instructions")
_RECOVERABLE = {"is_recoverable", *STEP_FIELDS["is_recoverable"]}
_CONFIDENCE = {"confidence", *STEP_FIELDS["confidence"]}


def beside_a_step(answer: Any) -> Sequence[str]:
    """What is said beside the fields of a diagnosis that makes a call, or settles one, and may say otherwise."""
    return beside_action(inside(answer, STEP_FIELDS, "suggested_action")).unknown


def beside_action(answer: JsonObject) -> Beside:
    """What is said beside an action that makes a call, settles one, or has another plan made: of the diagnosis, of its action, and of its data."""
    raw = action_in(named(answer, STEP_FIELDS).get("suggested_action"))
    word, data = word_and_data(raw, answer)
    kind, data = ACTIONS.get(fold(word)), opened(data)
    if kind == "settle_outcome":
        return _beside_settlement(answer, raw, data)
    if kind == "replan":  # another plan at once: all but a no tells why
        against = [
            f"{key}: {value}"
            for key, value in answer.items()
            if fold(key) in _FOR_ANOTHER and truth(value) is False
        ]
        return Beside(denying=tuple(_each_once([*against, *told_beside(answer)])))
    if kind is None or kind not in CALLING:
        return Beside()
    words = TEXT_NAMES if kind in WORDS else ()
    parts = [(answer, (*_OF_DIAGNOSES, *words))] if isinstance(raw, dict) or "data" in answer or words else []
    if isinstance(raw, dict) and (raw.get("data") or words) and fold(next(iter(raw))) not in ACTIONS:
        parts.append((raw, (*_OF_ACTIONS, *words)))
    if kind == "retry_with_tool" and isinstance(data, dict):
        parts.append((data, _OF_CALLS))
    said = [said_beside(_without_failure(part), known) for part, known in parts]
    other = [
        f"{key}: {text(value)[:60]}"
        for key, value in answer.items()
        if fold(key) not in _OF_DIAGNOSES and names_another(value, kind)
    ]
    only = [part for part, _ in parts]
    return _together([*_against_a_call(answer, only), *_unsure(answer), *other], [*_asks(answer, only)], said)


def _beside_settlement(answer: JsonObject, raw: Any, data: Any) -> Beside:
    """A false says nothing against it: that it is not to be called again goes with what has happened."""
    if not isinstance(data, dict):
        return Beside()
    inner, happened = beside_settlement(data), happened_in(data)
    if not isinstance(raw, dict):
        top = {key: value for key, value in answer.items() if key not in data}
        outer = [(top, _OF_DIAGNOSES)]
    else:
        outer = [(answer, _OF_DIAGNOSES)]
        if opened(raw.get("data")) == data:
            outer.append((raw, _OF_ACTIONS))
    only = [part for part, _ in outer]
    said = [
        said_beside(_without_failure(part, nothing_done=not happened), (*known, *HAPPENED))
        for part, known in outer
    ]
    torn = [
        f"{key}: {text(value)[:60]}"
        for part in only
        for key, value in part.items()
        if fold(key) in HAPPENED and happened_in({key: value}) not in (None, happened)
    ]
    asks = _asks(answer, only if any(part is data for part in only) else [*only, data])
    return _together(_unsure(answer), [*torn, *asks], [*said, inner])


def told_beside(answer: JsonObject) -> list[str]:
    """What a diagnosis, its action or the data of that ask first, or say no."""
    raw = action_in(named(answer, STEP_FIELDS).get("suggested_action"))
    data = opened(word_and_data(raw, answer)[1])
    parts = [answer, *(part for part in (raw, data) if isinstance(part, dict))]
    return _each_once(_asks(answer, parts))


def _each_once(told: Sequence[str]) -> list[str]:
    """The same field may stand in two of the parts, and in two lengths."""
    found: dict[str, str] = {}
    for one in told:
        found.setdefault(one.partition(":")[0], one)
    return list(found.values())


def _together(unknown: Sequence[str], denying: Sequence[str], said: Sequence[Beside]) -> Beside:
    noes = _each_once([*denying, *(one for found in said for one in found.denying)])
    others = dict.fromkeys([*unknown, *(one for found in said for one in found.unknown)])
    return Beside(tuple(one for one in others if one not in noes), tuple(noes))


def _asks(answer: JsonObject, parts: Sequence[JsonObject]) -> list[str]:
    """Each field by which a diagnosis, its action or its data asks for something first, or says no."""
    return [
        f"{key}: {text(value)[:_SHOWN]}"
        for part in parts
        for key, value in part.items()
        if (fold(key) not in _OF_DIAGNOSES and (asks_first(fold(key), value) or says_no(fold(key), value)))
        or (part is not answer and fold(key) in CONDITIONS and spoken(value))
        or (fold(key) in _AGREEING and truth(value) is None and begins_with_no(value))
    ]


def _unsure(answer: JsonObject) -> list[str]:
    return [
        f"{key}: {value}"
        for key, value in answer.items()
        if fold(key) in _CONFIDENCE and value not in NOTHING and confidence(value) == 0
    ]


def _against_a_call(answer: JsonObject, parts: Sequence[JsonObject]) -> list[str]:
    """Each field of a diagnosis and its action that is false, whatever it is called, but for what tells of the failure.

    What is to be made again is recoverable, should be retried, and so on: a false beside it says otherwise. That a cause outside cannot be recovered from goes with its category.
    """
    outside = category(named(answer, STEP_FIELDS).get("root_cause_category")) in OUTSIDE
    told = set(_OF_DIAGNOSES) - (set() if outside else _RECOVERABLE)
    return [
        f"{key}: {value}"
        for part in parts
        for key, value in part.items()
        if truth(value) is False
        and fold(key) not in told
        and not wants_leave(fold(key))
        and not _tells_of_failure(fold(key))
        and not _is_not_so(fold(key), value)
        and (not _is_number(value) or fold(key) in _RECOVERABLE)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _without_failure(part: JsonObject, *, nothing_done: bool = True) -> JsonObject:
    """It without what a diagnosis says of the failure that it is about, and without a yes that is not wanted.

    `nothing_done`: that the call had no effect goes with what is wanted; with its settlement as done it does not.
    """
    return {
        key: value
        for key, value in part.items()
        if not _tells_of_failure(fold(key))
        and not _is_not_so(fold(key), value, nothing_done=nothing_done)
        and not (truth(value) is True and fold(key) in _AGREEING)
        and not (fold(key).rpartition("_")[2] in _STATES and fold(value) in _FAILED)
        and not (nothing_done and fold(key) in _STATES and fold(value) in _NOT_MADE)
        and not (fold(key).rpartition("_")[2] == "risk" and fold(value) in _SMALL)
    }


def _is_not_so(name: str, value: Any, *, nothing_done: bool = True) -> bool:
    """True of what says that nobody has to be asked, that nothing is to be stopped, or what of the failed call was not so.

    That `valid_parameters` is false is why it failed, and that it `had_effect` is not so lets it be made again.
    """
    if truth(value) is not False and spoken(value):
        return False
    if name in _NOT_WANTED or wants_leave(name):
        return True
    words = set(name.split("_"))
    return nothing_done and not words.isdisjoint(_OF_CALLS_MADE) and words.isdisjoint(_OF_LEAVE)


def _tells_of_failure(name: str) -> bool:
    """By the whole of it, or by its last word: `first_failure`, `last_error`."""
    return name in _OF_FAILURES or name.rpartition("_")[2] in _OF_FAILURES_LAST


_OF_DIAGNOSES = (
    *STEP_FIELDS,
    *(name for names in STEP_FIELDS.values() for name in names),
    *("type", "data", "step_id", "action_id", "tool", "tool_id", "tool_name", "attempt", "attempts"),
    *("retries", "retry_count", "max_retries", "priority"),
)
_OF_CALLS = ("tool_id", *TOOL_ID, "parameters", *PARAMETERS)
_OF_ACTIONS = (
    *ACTION_FIELDS,
    *ACTION_FIELDS["type"],
    *ACTION_FIELDS["data"],
    "tool_id",
    *TOOL_ID,
    "step_id",
    "confidence",
)
_STATES = ("status", "state", "outcome", "result")
_FAILED = (
    "failed",
    "failure",
    "fail",
    "error",
    "errored",
    "unsuccessful",
    "incomplete",
    "invalid",
    "recoverable",
)
_NOT_MADE = ("not_executed", "not_made", "not_done", "no_effect")
_SMALL = ("low", "very_low", "minimal", "small")
_FOR_ANOTHER = frozenset({"should_replan", "needs_replan", "need_replan", "needs_replanning"})
_NOT_WANTED = {
    *INSTEAD_OF_STEPS, "ask_user", *STOPPING, *_FOR_ANOTHER, "permanent", "is_permanent",
}  # fmt: skip
_OF_CALLS_MADE = frozenset((
    "parameters", "parameter", "params", "input", "inputs", "effect", "effects", "effective", "idempotent", "had", "was", "were", "made",
    "executed", "found", "exists", "exist", "available", "duplicate",
))  # fmt: skip
_OF_LEAVE = frozenset((
    "should", "can", "may", "must", "safe", "approved", "approval", "allowed", "permitted", "confirmed", "confirmation", "agreed",
    "accepted", "authorized", "authorised", "proceed", "again", "retry",
))  # fmt: skip
"""A fact about the call is none about the failure with one of these in it: `may_be_made`, `was_approved`."""
_OF_FAILURES = (
    "error", "error_message", "error_type", "error_code", "error_details", "failure", "failure_reason", "failure_type", "failed",
    "failed_step", "failed_tool", "problem", "problems", "issue", "issues", "symptom", "symptoms", "severity", "impact", "success",
    "successful", "succeeded", "resolved", "fixed", "done", "completed", "transient", "is_transient",
)  # fmt: skip
"""What a diagnosis says of the failure, and not of what is to be done."""
_OF_FAILURES_LAST = frozenset({"failure", "failures", "failed", "error", "errors"})
_AGREEING = frozenset({
    "retry", "redo", "should_retry", "should_be_retried", "can_retry", "can_be_retried", "may_retry", "will_retry", "must_retry",
    "safe_to_retry", "is_safe_to_retry", "worth_retrying", "retryable", "is_retryable", "retriable", "is_retriable", "retry_recommended",
    "retry_suggested", "retry_advised", "retry_allowed", "retry_possible", "retry_safe", "retry_is_safe", "retry_needed", "retry_required",
})  # fmt: skip
"""True beside a call, one of these agrees. Whole names: `retry_forbidden` and `should_replan` do not."""
