"""Where tools come from, and many sources as one."""

from __future__ import annotations

from replan.ports import Progress
from replan.tools.catalog.catalog import Catalog
from replan.tools.functions.context import ToolContext, current
from replan.tools.functions.decorator import tool
from replan.tools.functions.source import FunctionSource
from replan.tools.loading import load_tools

__all__ = ["Catalog", "FunctionSource", "Progress", "ToolContext", "current", "load_tools", "tool"]
