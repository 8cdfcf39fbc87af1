"""The faults that a tool of LangChain may have."""

from __future__ import annotations

from langchain_core.tools import tool
from process_faults import faults

from replan.tools.frameworks import LangChainSource

SOURCE = "LangChain"
FAULTS = faults(
    lambda function: LangChainSource(tool("t", description="x")(function)),
    slow_list="a toolkit that hangs is shown in test_tools_of_frameworks, with a shorter time",
)
