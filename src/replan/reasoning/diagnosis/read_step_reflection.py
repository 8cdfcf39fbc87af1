"""What a model's diagnosis says: any form is understood that leaves no doubt, and the sense is not judged here.

`Violations` where no proposal can be made out: then there is nothing that code could check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

from replan.core.data.nothing import begins_with_no
from replan.core.data.taken_back import Beside, said_beside
from replan.core.plan.fields import INSTEAD_OF_STEPS
from replan.core.plan.fields import STEP_FIELDS as PLAN_STEP_FIELDS
from replan.core.reflection import (
    RETRIES,
    ActionType,
    StepReflection,
    SuggestedAction,
)
from replan.core.secrets import MASK
from replan.core.types import Category, JsonObject, ToolSpec
from replan.reasoning.diagnosis.action_names import (
    ACTION_FIELDS,
    ACTIONS,
    PARAMETERS,
    STEP_FIELDS,
    STOPPING,
    TOOL_ID,
    WANTING_A_YES,
    action_in,
    names_another,
    two_meanings,
    word_and_data,
)
from replan.reasoning.diagnosis.read_settlement import beside_settlement, read_settlement
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import (
    fold,
    inside,
    named,
    opened,
    said,
    spoken,
    text,
    texts,
    truth,
)
from replan.reasoning.prompting.recovery_view import FailureView
from replan.reasoning.prompting.tool_names import ToolNames

CALLING: frozenset[ActionType] = RETRIES | {"repair_step"}
"""After these the failed step is called again."""
_HANDED_ON: ActionType = "trigger_overall_reflection"
_RECOVERABLE = {"is_recoverable", *STEP_FIELDS["is_recoverable"]}
_CONFIDENCE = {"confidence", *STEP_FIELDS["confidence"]}
_CONDITIONS = WANTING_A_YES | {"when", *PLAN_STEP_FIELDS["when"]}
"""What a step may be bound to; a retry is made at once, so beside one it says that it is not meant so."""
_WORDS: dict[ActionType, str] = {
    "repair_step": "hint",
    "replan": "advice",
    "trigger_overall_reflection": "summary",
}
"""Actions whose data are one text, and what it is called."""
_TEXT_NAMES = ("hint", "advice", "summary", "reason", "text", "message", "description", "instructions")
_CATEGORIES: tuple[Category, ...] = get_args(Category)
_OUTSIDE = ("server_error", "external_error")
_WORDS_OF_CONFIDENCE = {"certain": 1.0, "very_high": 0.95, "high": 0.9, "medium": 0.6, "moderate": 0.6, "low": 0.3, "very_low": 0.1}  # fmt: skip
_NUMBER = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*(%|/\s*(\d+)|out of (\d+))?\s*")
_CUT = re.compile(r"… \(\d+ characters\)$")


# ── a step ────────────────────────────────────────────────────────────────────


def read_step_reflection(
    answer: Any, view: FailureView, heard: Callable[[Sequence[str]], bool] = lambda _: False
) -> StepReflection:
    """The diagnosis of a step. The shape of the action's data is as `SuggestedAction` says, or it is refused.

    `heard`: whether the noes beside a call were sent back before. Said again they count, and the call is handed on with them.
    """
    answer = inside(answer, STEP_FIELDS, "suggested_action")
    found = named(answer, STEP_FIELDS)
    if twice := list(two_meanings(answer, view.tool, view.tools)):
        raise Violations([f"the diagnosis has {fault}" for fault in twice[:_MOST_TOLD]])
    noes = _beside_call(answer).denying[:_MOST_TOLD]
    action = None
    if noes and heard(noes) and _HANDED_ON in view.allowed:
        action = SuggestedAction(type=_HANDED_ON, data={"summary": "; ".join(noes)})
    elif noes:
        raise Violations(
            [
                f"a call is to be made beside {no!r}, which says otherwise: choose another action if it is not to be made"
                for no in noes
            ]
        )
    category = _category(found.get("root_cause_category"))
    recoverable = truth(found.get("is_recoverable"))
    return StepReflection(
        root_cause_category=category,
        root_cause=text(found.get("root_cause")),
        # what goes with the category; only where that is not known, the model's own word
        is_recoverable=recoverable
        if category == "unknown" and recoverable is not None
        else category not in _OUTSIDE,
        confidence=_confidence(found.get("confidence")),
        analysis=text(found.get("analysis")),
        suggested_action=action or _action(found.get("suggested_action"), answer, view),
        alternative_solutions=texts(found.get("alternative_solutions")),
        improvement_suggestions=texts(found.get("improvement_suggestions")),
    )


def _category(value: Any) -> Category:
    word = fold(value)
    return next((name for name in _CATEGORIES if word in (name, name.removesuffix("_error"))), "unknown")


def _confidence(value: Any) -> float:
    """0 to 1; above 1 it is percent. What cannot be understood is the default."""
    default = 0.5
    if isinstance(value, str):
        written = _NUMBER.fullmatch(value)
        if written is None:
            return _WORDS_OF_CONFIDENCE.get(fold(value), default)
        number = float(written[1].replace(",", "."))
        if written[2]:
            whole = 100.0 if written[2] == "%" else float(written[3] or written[4])
            number = number / whole if whole else math.inf
        else:
            number = _fraction(number)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _fraction(value)
    else:
        return default
    return number if 0 <= number <= 1 else default


def _fraction(number: float) -> float:
    """A bare 1 is all, not one percent: nobody is sure of a thing to one percent and proposes it."""
    try:
        return float(number) / 100 if number > 1 else float(number)
    except OverflowError:
        return math.inf


# ── the action ────────────────────────────────────────────────────────────────


def _action(raw: Any, answer: JsonObject, view: FailureView) -> SuggestedAction:
    word, data = word_and_data(raw, answer)
    kind = ACTIONS.get(fold(word))
    if kind is None:
        if word is None or word == "":
            raise Violations([f"the answer has no suggested_action; it is one of {', '.join(view.allowed)}"])
        raise Violations([f"suggested_action.type {str(word)[:60]!r} is none of {', '.join(view.allowed)}"])
    return SuggestedAction(type=kind, data=_data(kind, opened(data), view))


def beside_a_step(answer: Any) -> Sequence[str]:
    """What is said beside the fields of a diagnosis that makes a call, or settles one, and may say otherwise."""
    answer = inside(answer, STEP_FIELDS, "suggested_action")
    word, data = word_and_data(named(answer, STEP_FIELDS).get("suggested_action"), answer)
    data = opened(data)
    if ACTIONS.get(fold(word)) == "settle_outcome":
        return beside_settlement(data).unknown if isinstance(data, dict) else ()
    return _beside_call(answer).unknown


def _beside_call(answer: JsonObject) -> Beside:
    """What is said beside an action after which a call is made: of the diagnosis, of its action, and of the call by another tool."""
    raw = action_in(named(answer, STEP_FIELDS).get("suggested_action"))
    word, data = word_and_data(raw, answer)
    kind, data = ACTIONS.get(fold(word)), opened(data)
    if kind is None or kind not in CALLING:
        return Beside()
    words = _TEXT_NAMES if kind in _WORDS else ()
    parts = [(answer, (*_OF_DIAGNOSES, *words))] if isinstance(raw, dict) or "data" in answer or words else []
    if isinstance(raw, dict) and (raw.get("data") or words) and fold(next(iter(raw))) not in ACTIONS:
        parts.append((raw, (*_OF_ACTIONS, *words)))
    if kind == "retry_with_tool" and isinstance(data, dict):
        parts.append((data, _OF_CALLS))
    said = [said_beside(_without_failure(part), known) for part, known in parts]
    asks = [
        f"{key}: {text(value)[:60]}"
        for part, _ in parts
        for key, value in part.items()
        if (
            (
                fold(key) in INSTEAD_OF_STEPS
                or (part is not answer and fold(key) in _CONDITIONS)
                or fold(key) in WANTING_A_YES
            )
            and spoken(value)
        )
        or (fold(key) in STOPPING and truth(value))
        or (fold(key) in _AGREEING and truth(value) is None and begins_with_no(value))
    ]
    unknown = [
        *_against_a_call(answer, [part for part, _ in parts]),
        *(
            f"{key}: {text(value)[:60]}"
            for key, value in answer.items()
            if fold(key) not in _OF_DIAGNOSES and names_another(value, kind)
        ),
        *(one for found in said for one in found.unknown),
    ]
    denying = dict.fromkeys([*asks, *(one for found in said for one in found.denying)])
    return Beside(tuple(one for one in dict.fromkeys(unknown) if one not in denying), tuple(denying))


def _against_a_call(answer: JsonObject, parts: Sequence[JsonObject]) -> list[str]:
    """Each field of a diagnosis and its action that is false, whatever it is called, but for what tells of the failure.

    What is to be made again is recoverable, should be retried, and so on: a false beside it says otherwise, and so does no confidence
    at all. That a cause outside cannot be recovered from goes with its category.
    """
    outside = _category(named(answer, STEP_FIELDS).get("root_cause_category")) in _OUTSIDE
    told = {*_OF_DIAGNOSES, *WANTING_A_YES} - (set() if outside else _RECOVERABLE)
    return [
        f"{key}: {value}"
        for part in parts
        for key, value in part.items()
        if truth(value) is False
        and fold(key) not in told
        and not _tells_of_failure(fold(key))
        and (not _is_number(value) or fold(key) in _RECOVERABLE)
    ] + [
        f"{key}: {value}"
        for key, value in answer.items()
        if fold(key) in _CONFIDENCE and spoken(value) and _confidence(value) == 0
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _without_failure(part: JsonObject) -> JsonObject:
    """It without what a diagnosis says of the failure that it is about, and without a yes that is not wanted."""
    return {
        key: value
        for key, value in part.items()
        if not _tells_of_failure(fold(key))
        and not (truth(value) is True and fold(key) in _AGREEING)
        and not (fold(key) in _STATES and fold(value) in _FAILED)
        and not (fold(key) in WANTING_A_YES and truth(value) is False)
    }


def _tells_of_failure(name: str) -> bool:
    """By the whole of it, or by its last word: `first_failure`, `last_error`."""
    return name in _OF_FAILURES or name.rpartition("_")[2] in _OF_FAILURES_LAST


def _data(kind: ActionType, data: Any, view: FailureView) -> JsonObject:
    if kind in _WORDS:
        words = _in_words(data)
        return {_WORDS[kind]: words} if words else {}
    if kind == "retry_with_params":
        return _new_parameters(data, view)
    if isinstance(data, str) and kind != "settle_outcome":
        data = {"tool_id": data}
    if not isinstance(data, dict):
        raise Violations([f"suggested_action.data of {kind} has to be an object"])
    return read_settlement(data) if kind == "settle_outcome" else _tool_call(kind, data, view)


def _in_words(data: Any) -> str:
    """One text: what is called like one, then whatever else there is."""
    if not isinstance(data, dict):
        return text(data)
    given = {fold(key): value for key, value in data.items()}
    first = next((name for name in _TEXT_NAMES if text(given.get(name))), None)
    rest = {
        key: value for key, value in data.items() if fold(key) != first and value not in (None, "", [], {})
    }
    parts = [text(given[first])] if first else []
    return "; ".join([*parts, said(rest)] if rest else parts)


def _new_parameters(data: Any, view: FailureView) -> JsonObject:
    if (
        isinstance(data, list)
        and data
        and all(isinstance(one, dict) and "name" in one and "value" in one for one in data)
    ):
        data = {str(one["name"]): one["value"] for one in data}
    if data is None or data == "":
        data = {}
    if not isinstance(data, dict):
        raise Violations(
            ["suggested_action.data of retry_with_params has to be an object of parameter → value"]
        )
    inner = _unwrapped(data, view.tool)
    return {name: value for name, value in inner.items() if not _unseen(name, value, view.parameters)}


def _unwrapped(data: JsonObject, tool: ToolSpec | None) -> JsonObject:
    """`{"parameters": {…}}` for `{…}`, where the tool has no parameter of that name."""
    has = (tool.parameters.get("properties") or {}) if tool is not None else {}
    for key, value in data.items():
        inner = opened(value)
        if key not in has and fold(key) in ("parameters", *PARAMETERS) and isinstance(inner, dict):
            # what stands beside it may only say again which tool it is, or why
            others = {fold(name) for name in data if name != key}
            if others <= {"tool_id", *TOOL_ID, *_TEXT_NAMES} and _same_tool(data, tool):
                return inner
    return data


def _same_tool(data: JsonObject, tool: ToolSpec | None) -> bool:
    given = named(data, {"tool_id": TOOL_ID}).get("tool_id")
    return given is None or (tool is not None and ToolNames([tool]).find(str(given)) is not None)


def _unseen(name: str, value: Any, shown: JsonObject) -> bool:
    """A mask, or the short form of a long value: the model saw no more of it, and it stays as it was."""
    return value == MASK or (isinstance(value, str) and value == shown.get(name) and bool(_CUT.search(value)))


def _tool_call(kind: ActionType, data: JsonObject, view: FailureView) -> JsonObject:
    found = named(data, {"tool_id": TOOL_ID, "parameters": PARAMETERS})
    tool = opened(found.get("tool_id"))
    if isinstance(tool, dict):  # {"tool": {"id": …, "parameters": {…}}}
        return _tool_call(kind, {**{k: v for k, v in found.items() if k == "parameters"}, **tool}, view)
    if not isinstance(tool, str) or not tool.strip():
        raise Violations([f"suggested_action.data of {kind} has to name a tool: {{tool_id, parameters}}"])
    known = ToolNames(view.tools).find(tool)
    call: JsonObject = {"tool_id": known.id if known is not None else tool.strip()}
    parameters = opened(found.get("parameters"))
    if isinstance(parameters, dict):
        call["parameters"] = {name: value for name, value in parameters.items() if value != MASK}
    elif parameters not in (None, "", []):
        raise Violations([f"suggested_action.data of {kind}: parameters has to be an object"])
    return call


_OF_DIAGNOSES = (
    *STEP_FIELDS,
    *(name for names in STEP_FIELDS.values() for name in names),
    *("type", "data", "step_id", "action_id", "tool", "tool_id", "tool_name", "attempt", "attempts"),
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
_FAILED = ("failed", "failure", "fail", "error", "errored", "unsuccessful", "incomplete", "invalid")
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
_MOST_TOLD = 5
