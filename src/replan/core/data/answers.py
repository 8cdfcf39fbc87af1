"""Which object of a model's answer is the answer, whatever it is wrapped in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from replan.core.data.for_readers import NOTHING, folded
from replan.core.data.lead_ins import is_call_of_answer, is_wrapper
from replan.core.data.native_calls import calls_in
from replan.core.data.read_json import Unreadable, read_alone
from replan.core.data.standing import answers_in
from replan.core.types import JsonObject

_DEPTH = 5
_MOST = 10_000
"""Values that are looked at."""
_FEW = 8
"""Items of a list that wraps an answer."""
_MANY = 100
"""Fields of an object that wraps one."""

Form = Literal["good", "broken", "none"]


def form_of(text: str, fields: Sequence[str]) -> Form:
    """Whether the text holds an answer with any of these fields, a broken one, or none at all.

    `broken` is the model's slip, which it can correct; `none` says that it was not asked in a way that it understood.
    """
    try:
        values = [one.value for one in answers_in(text)]
    except Unreadable as error:
        return "broken" if error.begun else "none"
    found = all_meant(values, fields, in_any=True)
    good = any(isinstance(value, dict) and (not fields or _count(value, fields)) for value in found)
    return "good" if good else "none"


def all_meant(values: Sequence[Any], needed: Sequence[str], *, in_any: bool = False) -> list[Any]:
    """What each value of a text means; where none is the answer, a list of steps is one without what is around it."""
    found = [meant(value, needed, in_any=in_any) for value in values]
    if "steps" not in needed or any(_count(value, needed) for value in found):
        return found
    if calls := calls_in(found):
        around = [value for value in found if isinstance(value, dict) and "tool_calls" in value]
        beside = {key: said for value in around for key, said in value.items() if key != "tool_calls"}
        return [beside | {"steps": calls}]
    return [{"steps": value} if _are_steps(value) else value for value in found]


def _are_steps(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and _count(one, _IDS) and _count(one, _DOING) for one in value)
    )


_IDS = ("step_id", "id")
_DOING = ("tool", "tool_id", "tool_name", "actions")


def meant(value: Any, needed: Sequence[str], *, in_any: bool = False) -> Any:
    """The object that has what is needed: the value itself, or the one inside that has, with what stands around it.

    So `{"plan": {…}}`, a list of one, and a tool call written as text (`{"name": …, "arguments": "{…}"}`) are read, but not
    `{"bad_plan": {…}}`: the wrapping has to have a name that only wraps (`in_any`: whatever it has). What it says beside is as
    if the answer said it. Where several objects have as much, nothing is guessed.
    """
    if not needed:
        return (
            value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) else value
        )
    level: list[tuple[Any, JsonObject]] = [(value, {})]
    for _ in range(_DEPTH):
        most = max((_count(one, needed) for one, _ in level), default=0)
        if most:
            best = [(one, around) for one, around in level if _count(one, needed) == most]
            found, around = best[0]
            if not all(one == found for one, _ in best):
                return value
            return found if not around else _with_around(found, around)
        level = [
            (child, around | beside) for one, around in level for child, beside in _inside(one, in_any=in_any)
        ][:_MOST]
    return value


def _with_around(found: JsonObject, around: JsonObject) -> JsonObject:
    """The answer with what is said around it; where both say something, the two stand side by side."""
    both = dict(found)
    for key, said in around.items():
        if said in NOTHING or said == found or said == both.get(key):
            continue
        if both.get(key) in NOTHING:
            both[key] = said
        elif key not in _SAID_TWICE:
            both[f"{key} (around it)"] = said
    return both


_OF_CALLS = frozenset({"name", "id", "type", "role", "index"})
"""What stands beside the arguments of a call."""
_KINDS = frozenset({"tool_use", "output_text", "text", "json_object", "structured_output"})
_ARGUMENTS = frozenset({"arguments", "parameters", "input", "args", "function", "content"})
_SAID_TWICE = frozenset(
    {
        "name", "title", "description", "summary", "reasoning", "thought", "thoughts", "thinking", "explanation", "analysis",
        "rationale", "task_type", "task_description", "workflow_id", "estimated_duration", "version",
    }
)  # fmt: skip
"""Of these the answer's own goes before what is said around it."""


def _count(value: Any, needed: Sequence[str]) -> int:
    """How many of these fields it has, however they are spelled."""
    if not isinstance(value, dict):
        return 0
    missing = [key for key in needed if key not in value]
    spelled = {folded(key) for key in value} if missing and len(value) <= _MANY else ()
    return len(needed) - sum(folded(key) not in spelled for key in missing)


def _inside(value: Any, *, in_any: bool) -> Iterator[tuple[Any, JsonObject]]:
    """What is wrapped in the value, each with what is said beside it."""
    if in_any:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        yield from ((opened, {}) for child in children for opened in _opened(child))
    elif isinstance(value, list) and len(value) <= _FEW:
        for at, child in enumerate(value):
            others = value[:at] + value[at + 1 :]
            if not all(isinstance(one, dict) or one in NOTHING for one in others):
                continue
            beside = {key: said for one in others if one for key, said in one.items()}
            yield from ((opened, beside) for opened in _opened(child))
    elif isinstance(value, dict) and len(value) <= _MANY:
        for key in filter(is_wrapper, value):
            if key in _ARGUMENTS and _is_of_another(value):
                continue
            left_out = {key, *(_OF_CALLS if key in _ARGUMENTS else ())}
            if key in _ARGUMENTS and isinstance(value.get("function"), str):
                left_out.add("function")
            beside = {name: said for name, said in value.items() if name not in left_out}
            yield from ((opened, beside) for opened in _opened(value[key]))


def _is_of_another(value: JsonObject) -> bool:
    """True of the call of something else, and of what somebody else has said.

    `{"name": "rejected_plan", "arguments": {…}}` (or `"function"`), `{"role": "tool", "content": "…"}`, `{"type": "tool_result", "content": …}`.
    """
    name, role, kind = (value.get(field) for field in ("name", "role", "type"))
    if isinstance(called := value.get("function"), str) and not name:
        name = called
    if isinstance(name, str) and name and not is_call_of_answer(name):
        return True
    if isinstance(role, str) and role.casefold() not in ("", "assistant", "model", "ai"):
        return True
    return isinstance(kind, str) and bool(kind) and kind not in _KINDS and not is_wrapper(kind)


def _opened(child: Any) -> Iterator[Any]:
    if isinstance(child, dict | list):
        yield child
    elif isinstance(child, str) and child.lstrip()[:1] in ("{", "["):
        try:
            yield read_alone(child)
        except Unreadable:
            return
