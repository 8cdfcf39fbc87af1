"""A planned call that nothing can change any more: what its check has found is used when it is made."""

from __future__ import annotations

from typing import Any, NamedTuple

from replan.core.data.canonical import one_form
from replan.core.ids import call_content
from replan.core.types import JsonObject, ToolSpec


class ConstantCall(NamedTuple):
    """A call without references, secrets or parameters from metadata, whose parameters fit its tool."""

    tool: ToolSpec
    parameters: JsonObject
    """The very object that the plan's step has: with another one, this is another call."""
    content: str
    """What it asks for, as one text."""
    as_written: bool
    """The text is of the parameters as they stand, as earlier releases had it too."""
    short: bool
    """All of it may go into the log."""


def constant_call(tool: ToolSpec, parameters: JsonObject) -> ConstantCall:
    formed = one_form(tool.parameters, parameters)
    short = all(map(_is_short, parameters.values()))
    return ConstantCall(tool, parameters, call_content(tool.id, formed), formed is parameters, short)


def _is_short(value: Any) -> bool:
    kind = type(value)
    return kind is int or (len(value) <= _SHORT if kind is str else not isinstance(value, dict | list | str))


_SHORT = 1_000
