"""Under which names a diagnosis says its action, and where two of them say two things.

Each table is the one by which a field is read and by which it is compared: whether a call is made must not hang on which is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from replan.core.data.for_readers import NOTHING
from replan.core.data.spellings import same
from replan.core.reflection import ACTION_TYPES, RETRIES, ActionType
from replan.core.types import JsonObject, ToolSpec
from replan.reasoning.prompting.read_values import fold, opened, truth
from replan.reasoning.prompting.tool_names import ToolNames

STEP_FIELDS = {
    "suggested_action": (
        *("action", "suggestion", "proposed_action", "recommended_action", "next_action"),
        "recovery_action",
    ),
    "root_cause_category": ("category", "error_category", "cause_category"),
    "root_cause": ("cause", "reason"),
    "is_recoverable": ("recoverable",),
    "confidence": ("confidence_score",),
    "analysis": ("reflection", "reasoning", "explanation"),
    "alternative_solutions": ("alternatives",),
    "improvement_suggestions": ("improvements", "suggestions"),
}
ACTION_FIELDS = {
    "type": ("action", "action_type"),
    "data": (
        "parameters",
        *(
            PARAMETERS := (
                "params",
                "new_params",
                "new_parameters",
                "updated_params",
                "updated_parameters",
                "arguments",
                "args",
                "input",
            )
        ),
    ),
}
"""Of the action itself. A `name` or a `kind` is its type only where it names one."""
_MAY_NAME = ("name", "kind")
TOOL_ID = ("tool", "tool_name", "name", "id", "new_tool", "new_tool_id")
GIVING_UP = {
    "stop", "abort", "give_up", "ask_user", "ask", "fail", "none", "cancel", "terminate", "end", "escalate",
    "skip", "skip_step", "ask_human", "ask_person", "manual_intervention", "user_intervention", "wait",
    "overall_reflection", "reflect", "trigger_reflection",
}  # fmt: skip
"""A step never ends a task: whoever would like it to is heard by the overall reflection."""
ACTIONS: dict[str, ActionType] = {
    **{name: name for name in ACTION_TYPES},
    **dict.fromkeys(GIVING_UP, "trigger_overall_reflection"),
    "retry_with_parameters": "retry_with_params",
    "retry_with_new_params": "retry_with_params",
    "retry_with_different_params": "retry_with_params",
    "retry_params": "retry_with_params",
    "retry_with_different_tool": "retry_with_tool",
    "retry_with_another_tool": "retry_with_tool",
    "switch_tool": "retry_with_tool",
    "use_tool": "retry_with_tool",
    "repair": "repair_step",
    "replan_single_step": "repair_step",
    "replan_task": "replan",
    "full_replan": "replan",
    "verify": "verify_outcome",
    "settle": "settle_outcome",
}


def word_and_data(raw: Any, answer: JsonObject) -> tuple[Any, Any]:
    """The action and its data: in `data`, beside its type, or (where it is a bare word) beside itself."""
    raw = action_in(raw)
    word, data = raw, None
    if isinstance(raw, dict):
        word, data = _taken_apart(raw)
        if not data and word is not None and "data" in answer:
            data = answer["data"]
    elif raw is None and "type" in answer:
        word, data = answer["type"], answer.get("data")
    elif isinstance(raw, str):
        data = _beside(answer)
    return word, data


def action_in(raw: Any) -> Any:
    """What stands there as the action, out of a text or a list of one."""
    raw = opened(raw)
    return raw[0] if isinstance(raw, list) and len(raw) == 1 else raw


def _taken_apart(raw: JsonObject) -> tuple[Any, Any]:
    """The type and the data of an action given as an object."""
    key = next((key for key in raw if fold(key) in ("type", *ACTION_FIELDS["type"])), None)
    if key is None:
        key = next((key for key in raw if fold(key) in _MAY_NAME and fold(raw[key]) in ACTIONS), None)
    if key is None:
        if len(raw) == 1 and fold(next(iter(raw))) in ACTIONS:  # {"repair_step": {…}}
            return next(iter(raw.items()))
        return None, None
    own = next((name for name in raw if fold(name) == "data"), "data")
    beside = {name: value for name, value in raw.items() if name not in (key, own)}
    return raw[key], raw.get(own) or beside


def _beside(answer: JsonObject) -> Any:
    if "data" in answer:
        return answer["data"]
    known = {*STEP_FIELDS, *(other for others in STEP_FIELDS.values() for other in others)}
    return {key: value for key, value in answer.items() if fold(key) not in known}


# ── two of them ───────────────────────────────────────────────────────────────


def two_meanings(answer: JsonObject, tool: ToolSpec | None, tools: Sequence[ToolSpec]) -> Iterator[str]:
    """Each name under which a diagnosis says something else than under the field's own, and each other tool than its own.

    `tool`: the one that has failed. `tools`: all there are.
    """
    yield from _other_values(_filled(answer, STEP_FIELDS, "is_recoverable"), truth, "is_recoverable")
    actions = _filled(answer, STEP_FIELDS, "suggested_action")
    if actions and any(fold(key) == "type" and fold(value) in ACTIONS for key, value in answer.items()):
        actions += [(key, value) for key, value in answer.items() if fold(key) == "type"]
    raw = action_in(actions[0][1]) if actions else answer
    has = (tool.parameters.get("properties") or {}) if tool is not None else {}
    first = _kind_and_data(raw)
    for key, value in actions[1:]:
        other = action_in(value)
        if not same(other, raw) and not _agree(_kind_and_data(other), first, has):
            yield _told(key, actions[0][0], "suggested_action")
    part = _without_parameters(raw, has) if isinstance(raw, dict) else {}
    for fault in _in_action(part, answer, first[0], has):
        yield f"suggested_action with {fault}"
    if first[0] in RETRIES:
        yield from _other_tools(part, answer, first, tool, tools)


def _in_action(
    part: JsonObject, answer: JsonObject, kind: ActionType | None, has: Collection[str]
) -> Iterator[str]:
    """The same of the fields of an action; its data may stand beside it too."""
    if part is not answer and part:
        types = _filled(part, ACTION_FIELDS, "type")
        types += [(k, value) for k, value in part.items() if fold(k) in _MAY_NAME and fold(value) in ACTIONS]
        yield from _other_values(types, lambda word: ACTIONS.get(fold(word), word), "type")
    data = _filled(part, ACTION_FIELDS, "data")
    if kind not in RETRIES:
        data = [(key, value) for key, value in data if fold(key) == "data"]
    elif not part:
        data = _filled(answer, ACTION_FIELDS, "data")
    elif part is not answer:
        data += [(key, value) for key, value in answer.items() if fold(key) == "data"]
    yield from _other_values(data, lambda value: _parameters(value, has), "data")
    if kind in RETRIES and data and isinstance(inner := opened(data[0][1]), dict):
        inner = {key: value for key, value in inner.items() if key not in has}
        yield from _other_values(_filled(inner, ACTION_FIELDS, "data"), opened, "parameters")


def _other_tools(
    part: JsonObject,
    answer: JsonObject,
    first: tuple[ActionType | None, Any],
    tool: ToolSpec | None,
    tools: Sequence[ToolSpec],
) -> Iterator[str]:
    """Each tool that is named as the one to call, beside the one that is called."""
    kind, data = first
    again = kind == "retry_with_params"
    places = [part, *([answer] if again else [data] if isinstance(data, dict) else [])]
    named = [
        (key, value)
        for place in reversed(places)
        for key, value in place.items()
        if fold(key) in ("tool_id", *TOOL_ID) and isinstance(value, str)
    ]
    if not named:
        return
    names = ToolNames(tools)
    own = tool if again else None
    for key, value in named:
        found = names.find(value)
        own = own or found
        if found is not None and own is not None and found.id != own.id:
            yield f"{key!r}: {found.id!r} beside a call of {own.id!r}, and only one of them is made"


def names_another(value: Any, kind: ActionType) -> bool:
    """True of a whole action of another kind, whatever the field is called that it stands under."""
    value = action_in(value)
    return isinstance(value, dict) and _kind_and_data(value)[0] not in (None, kind)


def _without_parameters(raw: JsonObject, has: Collection[str]) -> JsonObject:
    """An action without the new parameters that stand beside its type, where it has no data."""
    if any(fold(key) == "data" for key in raw):
        return raw
    return {key: value for key, value in raw.items() if key not in has or fold(key) == "type"}


def _filled(part: JsonObject, fields: Mapping[str, Collection[str]], own: str) -> list[tuple[str, Any]]:
    """What stands under the field's own name and its others, the own first, without what says nothing."""
    found = [
        (key, value)
        for key, value in part.items()
        if (fold(key) == own or fold(key) in fields[own]) and value not in NOTHING
    ]
    return sorted(found, key=lambda one: fold(one[0]) != own)


def _other_values(said: list[tuple[str, Any]], meant: Callable[[Any], Any], own: str) -> Iterator[str]:
    for key, value in said[1:]:
        if not same(meant(value), meant(said[0][1])):
            yield _told(key, said[0][0], own)


def _told(key: str, beside: str, own: str) -> str:
    return f"{key!r} beside {beside!r}, which is the same field: write {own!r} alone"


def _kind_and_data(raw: Any) -> tuple[ActionType | None, Any]:
    word, data = _taken_apart(raw) if isinstance(raw, dict) else (raw, None)
    return ACTIONS.get(fold(word)), opened(data)


def _agree(
    one: tuple[ActionType | None, Any], other: tuple[ActionType | None, Any], has: Collection[str]
) -> bool:
    """True if both are the same action, though one may leave out its data."""
    kind, data = one
    if kind is None or kind != other[0]:
        return False
    return data in NOTHING or other[1] in NOTHING or same(_parameters(data, has), _parameters(other[1], has))


def _parameters(data: Any, has: Collection[str]) -> Any:
    """The parameters that are wrapped in data, or the data themselves."""
    data = opened(data)
    for key, value in data.items() if isinstance(data, dict) else ():
        if key not in has and fold(key) in ACTION_FIELDS["data"] and isinstance(inner := opened(value), dict):
            return inner
    return data
