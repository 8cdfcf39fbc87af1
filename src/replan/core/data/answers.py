"""Which object of a model's answer is the answer, whatever it is wrapped in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from replan.core.data.native_calls import calls_in
from replan.core.data.read_json import Unreadable, candidates, read_json

_DEPTH = 5
_MOST = 10_000
"""Values that are looked at."""

Form = Literal["good", "broken", "none"]


def form_of(text: str, fields: Sequence[str]) -> Form:
    """Whether the text holds an answer with any of these fields, a broken one, or none at all.

    `broken` is the model's slip, which it can correct; `none` says that it was not asked in a way that it understood.
    """
    try:
        values = candidates(text)
    except Unreadable as error:
        return "broken" if error.begun else "none"
    found = all_meant(values, fields)
    good = any(isinstance(value, dict) and (not fields or _count(value, fields)) for value in found)
    return "good" if good else "none"


def all_meant(values: Sequence[Any], needed: Sequence[str]) -> list[Any]:
    """What each value of a text means; where none is the answer, a list of steps is one without what is around it."""
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
