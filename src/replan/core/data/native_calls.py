"""Calls of tools in the forms in which models make them by themselves, where a plan was asked for."""

from __future__ import annotations

from typing import Any

from replan.core.types import JsonObject

_WITH = ("arguments", "input", "args", "parameters")


def as_step(value: Any) -> JsonObject | None:
    """The call as a step says it, with whatever stands beside it; None if it is none.

    `{name, arguments}`, `{type, name, input}`, `{id, type, function: {name, arguments}}`. What describes a tool is no call of it.
    """
    if not isinstance(value, dict):
        return None
    rest = dict(value)
    if isinstance(inner := rest.get("function"), dict):
        del rest["function"]
        rest |= inner
    given = [name for name in _WITH if name in rest]
    if len(given) != 1 or not isinstance(rest.get("name"), str) or not rest.keys().isdisjoint(_OF_OTHERS):
        return None
    parameters, tool = rest.pop(given[0]), rest.pop("name")
    if isinstance(parameters, dict) and isinstance(parameters.get("properties"), dict):
        return None
    return {**rest, "tool": tool, "parameters": parameters}


_OF_OTHERS = ("tool", "tool_id", "tool_name", "actions", "description", "steps")
"""What no such call has: it is a step, or the description of a tool."""


def calls_in(values: list[Any]) -> list[JsonObject]:
    """The calls that these values are, if they are nothing else: each one, a list of them, or an object `tool_calls`."""
    found: list[JsonObject] = []
    for value in values:
        inner = value.get("tool_calls") if isinstance(value, dict) else None
        listed = inner if isinstance(inner, list) else value if isinstance(value, list) else [value]
        calls = [as_step(one) for one in listed]
        if None in calls:
            return []
        found += [one for one in calls if one is not None]
    return found
