"""What a model's diagnosis says: any form is understood that leaves no doubt, and the sense is not judged here.

`Violations` where no proposal can be made out: then there is nothing that code could check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from replan.core.reflection import (
    ActionType,
    StepReflection,
    SuggestedAction,
)
from replan.core.secrets import MASK
from replan.core.types import JsonObject, ToolSpec
from replan.reasoning.diagnosis.action_names import (
    ACTIONS,
    PARAMETERS,
    STEP_FIELDS,
    TOOL_ID,
    two_meanings,
    word_and_data,
)
from replan.reasoning.diagnosis.beside_action import TEXT_NAMES, WORDS, beside_action, told_beside
from replan.reasoning.diagnosis.cause import OUTSIDE, category, confidence
from replan.reasoning.diagnosis.read_settlement import read_settlement
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import (
    fold,
    inside,
    named,
    opened,
    said,
    text,
    texts,
    truth,
)
from replan.reasoning.prompting.recovery_view import FailureView
from replan.reasoning.prompting.tool_names import ToolNames

_HANDED_ON: ActionType = "trigger_overall_reflection"
_CUT = re.compile(r"… \(\d+ characters\)$")


# ── a step ────────────────────────────────────────────────────────────────────


def read_step_reflection(
    answer: Any,
    view: FailureView,
    heard: Callable[[Sequence[str]], bool] = lambda _: False,
    *,
    in_full: bool = False,
) -> StepReflection:
    """The diagnosis of a step. The shape of the action's data is as `SuggestedAction` says, or it is refused.

    `heard`: whether the noes beside a call, a settlement or another plan were sent back before. Said again they count, and are handed on in
    place of it. `in_full`: what is handed on is told all that the diagnosis asks, or why, where it does not say that itself.
    """
    answer = inside(answer, STEP_FIELDS, "suggested_action")
    found = named(answer, STEP_FIELDS)
    if twice := list(two_meanings(answer, view.tool, view.tools)):
        raise Violations([f"the diagnosis has {fault}" for fault in twice[:_MOST_TOLD]])
    noes = beside_action(answer).denying[:_MOST_TOLD]
    action = None
    if noes and heard(noes) and _HANDED_ON in view.allowed:
        action = SuggestedAction(type=_HANDED_ON, data={"summary": "; ".join(noes)})
    elif noes:
        raise Violations([f"{_what_is_done(answer)} beside {no!r}, {_IF_NOT}" for no in noes])
    action = action or _action(found.get("suggested_action"), answer, view)
    if in_full and action.type == _HANDED_ON:
        action = _in_full(action, answer, found)
    kind = category(found.get("root_cause_category"))
    recoverable = truth(found.get("is_recoverable"))
    return StepReflection(
        root_cause_category=kind,
        root_cause=text(found.get("root_cause")),
        # what goes with the category; only where that is not known, the model's own word
        is_recoverable=recoverable if kind == "unknown" and recoverable is not None else kind not in OUTSIDE,
        confidence=confidence(found.get("confidence")),
        analysis=text(found.get("analysis")),
        suggested_action=action,
        alternative_solutions=texts(found.get("alternative_solutions")),
        improvement_suggestions=texts(found.get("improvement_suggestions")),
    )


_IF_NOT = (
    "which says otherwise: leave that out if it does not; if a person has to say something first, or it is not to be done, choose "
    "trigger_overall_reflection and say so in its summary"
)


def _what_is_done(answer: JsonObject) -> str:
    word, _ = word_and_data(named(answer, STEP_FIELDS).get("suggested_action"), answer)
    return (
        "another plan is to be made at once"
        if ACTIONS.get(fold(word)) == "replan"
        else "a call is to be made, or settled,"
    )


def _in_full(action: SuggestedAction, answer: JsonObject, found: JsonObject) -> SuggestedAction:
    """With what is asked beside it, and, where it says nothing, with why."""
    summary = str(action.data.get("summary") or "")
    told = [one for one in told_beside(answer) if one.partition(": ")[2] not in summary]
    why = ("root_cause", "analysis", "alternative_solutions") if not summary else ()
    parts = [summary, *told[:_MOST_TOLD], *(text(found.get(name))[:_MOST_WORDS] for name in why)]
    words = "; ".join(dict.fromkeys(filter(None, parts)))
    return SuggestedAction(type=_HANDED_ON, data={"summary": words} if words else {})


_MOST_WORDS = 1_000


# ── the action ────────────────────────────────────────────────────────────────


def _action(raw: Any, answer: JsonObject, view: FailureView) -> SuggestedAction:
    word, data = word_and_data(raw, answer)
    kind = ACTIONS.get(fold(word))
    if kind is None:
        if word is None or word == "":
            raise Violations([f"the answer has no suggested_action; it is one of {', '.join(view.allowed)}"])
        raise Violations([f"suggested_action.type {str(word)[:60]!r} is none of {', '.join(view.allowed)}"])
    return SuggestedAction(type=kind, data=_data(kind, opened(data), view))


def _data(kind: ActionType, data: Any, view: FailureView) -> JsonObject:
    if kind in WORDS:
        words = _in_words(data)
        return {WORDS[kind]: words} if words else {}
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
    first = next((name for name in TEXT_NAMES if text(given.get(name))), None)
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
            if others <= {"tool_id", *TOOL_ID, *TEXT_NAMES} and _same_tool(data, tool):
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


_MOST_TOLD = 5
