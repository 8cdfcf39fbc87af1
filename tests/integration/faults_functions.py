"""The faults that a Python function may have."""

from __future__ import annotations

from process_faults import faults

from replan.tools import FunctionSource, tool

SOURCE = "functions"
FAULTS = faults(lambda function: FunctionSource([tool(name="t")(function)]))
