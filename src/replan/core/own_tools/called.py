"""Tools of which each call says what it gives."""

from __future__ import annotations

from replan.core.own_tools.model import output_of
from replan.core.types import JsonObject, ToolSpec
from replan.core.waits.questions import planned_schema


def called_as(tool: ToolSpec, parameters: JsonObject) -> ToolSpec:
    """The tool with what a call of it with these parameters gives, where that is for the call to say."""
    if not tool.shaped_by_call:
        return tool
    gives = output_of(parameters) if tool.asks_model else planned_schema(parameters)
    return tool.put(output_schema=gives)
