"""The faults that a tool of Pydantic AI may have."""

from __future__ import annotations

from process_faults import faults
from pydantic_ai import Tool

from replan.tools.frameworks import PydanticAiSource

SOURCE = "Pydantic AI"
FAULTS = faults(
    lambda function: PydanticAiSource(Tool(function, name="t")),
    slow_list="a toolset that hangs is shown in test_tools_of_frameworks, with a shorter time",
)
