"""The faults that a tool of the OpenAI Agents SDK may have."""

from __future__ import annotations

from agents import function_tool
from process_faults import faults

from replan.tools.frameworks import OpenAiAgentsSource

SOURCE = "the OpenAI Agents SDK"
FAULTS = faults(lambda function: OpenAiAgentsSource(function_tool(function, name_override="t")))
