"""A planned call that nothing can change any more: what its check has found is used when it is made."""

from __future__ import annotations

from typing import NamedTuple

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


def constant_call(tool: ToolSpec, parameters: JsonObject, *, as_written: bool = False) -> ConstantCall:
    """`as_written`: it is known that the schema has no other form for what is written."""
    formed = parameters if as_written else one_form(tool.parameters, parameters)
    short = True
    for value in parameters.values():
        kind = type(value)
        if kind is not int and (len(value) > _SHORT if kind is str else isinstance(value, dict | list | str)):
            short = False
            break
    content = call_content(tool.id, formed)
    return tuple.__new__(ConstantCall, (tool, parameters, content, formed is parameters, short))


_SHORT = 1_000
