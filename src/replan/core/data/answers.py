"""Which object of a model's answer is the answer, whatever it is wrapped in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from replan.core.data.native_calls import as_step, calls_in
from replan.core.data.read_json import Unreadable, read_json
from replan.core.data.standing import answers_in
from replan.core.types import JsonObject

_DEPTH = 5
_MOST = 10_000
"""Values that are looked at."""

Form = Literal["good", "broken", "none"]


def form_of(text: str, fields: Sequence[str]) -> Form:
    """Whether the text holds an answer with any of these fields, a broken one, or none at all.

    `broken` is the model's slip, which it can correct; `none` says that it was not asked in a way that it understood.
    """
    try:
        values = [one.value for one in answers_in(text)]
    except Unreadable as error:
        return "broken" if error.begun else "none"
    found = all_meant(values, fields)
    good = any(isinstance(value, dict) and (not fields or _count(value, fields)) for value in found)
    return "good" if good else "none"


def all_meant(values: Sequence[Any], needed: Sequence[str], instead: Sequence[str] = ()) -> list[Any]:
    """What each value of a text means; where none is the answer, a list of steps is one without what is around it.

    `instead`: fields that are said in place of an answer. They hold wherever they stand around it.
    """
    found = _all_meant(values, needed)
    if not instead:
        return found
    if len(found) == len(values):
        return [_with_around(one, [value], instead) for one, value in zip(found, values, strict=True)]
    return [_with_around(one, values, instead) for one in found]


def _with_around(found: Any, values: Sequence[Any], instead: Sequence[str]) -> Any:
    """The answer with the fields of what it was found in; its own go before them."""
    if not isinstance(found, dict) or any(found is value for value in values):
        return found
    level: list[tuple[Any, JsonObject]] = [(value, {}) for value in values]
    for _ in range(_DEPTH):
        level = [(one, around | _fields_of(one, instead)) for one, around in level]
        level = [(child, around) for one, around in level for child in _inside(one)][:_MOST]
        for one, around in level:
            if one == found:
                return around | {key: said for key, said in found.items() if said or key not in around}
    # a plan of steps or calls, put together here: only what holds these is around them
    return {key: said for value in values for key, said in _fields_of(value, instead).items()} | found


def _fields_of(value: Any, names: Sequence[str]) -> JsonObject:
    return {name: value[name] for name in names if value.get(name)} if isinstance(value, dict) else {}


def _all_meant(values: Sequence[Any], needed: Sequence[str]) -> list[Any]:
    found = [meant(value, needed) for value in values]
    if "steps" not in needed or any(_count(value, needed) for value in found):
        return found
    if calls := calls_in(found):
        return [{"steps": calls}]
    return [{"steps": value} if _are_steps(value) else value for value in found]


def _are_steps(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and _count(one, _IDS) and _count(one, _DOING) for one in value)
    )


_IDS = ("step_id", "id")
_DOING = ("tool", "tool_id", "tool_name", "actions")


def meant(value: Any, needed: Sequence[str]) -> Any:
    """The object that has what is needed: the value itself, or the one inside that has.

    So `{"plan": {…}}`, a list of one, and a tool call written as text (`{"name": …, "arguments": "{…}"}`) are read,
    whatever the wrapping is called. Where several objects have as much, nothing is guessed.
    """
    if not needed:
        return (
            value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) else value
        )
    level = [value]
    for _ in range(_DEPTH):
        most = max((_count(one, needed) for one in level), default=0)
        if most:
            best = [one for one in level if _count(one, needed) == most]
            return best[0] if all(one == best[0] for one in best) else value
        level = [child for one in level for child in _inside(one)][:_MOST]
    return value


def said_around(value: Any, found: Any) -> list[str]:
    """The fields beside what an answer is wrapped in that say something of their own; none if it is not wrapped."""
    if not isinstance(value, dict) or found is value or as_step(value) is not None:
        return []
    return [
        key
        for key, said in value.items()
        if said not in (None, "")
        and not isinstance(said, dict | list)
        and key.casefold() not in _OF_WRAPPINGS
    ]


_OF_WRAPPINGS = frozenset(
    {
        "name", "type", "id", "role", "index", "reasoning", "thought", "thoughts", "thinking", "explanation",
        "analysis", "rationale", "arguments", "parameters", "input",
    }
)  # fmt: skip
"""Fields of a call, and of thoughts before an answer."""


def _count(value: Any, needed: Sequence[str]) -> int:
    return sum(key in value for key in needed) if isinstance(value, dict) else 0


def _inside(value: Any) -> Iterator[Any]:
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(child, dict | list):
            yield child
        elif isinstance(child, str) and child.lstrip()[:1] in ("{", "["):
            try:
                yield read_json(child)
            except Unreadable:
                continue
