"""Where tools come from, and many sources as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replan.ports import Progress
    from replan.tools.catalog.catalog import Catalog
    from replan.tools.functions.context import ToolContext, current
    from replan.tools.functions.decorator import tool
    from replan.tools.functions.files import File
    from replan.tools.functions.source import FunctionSource
    from replan.tools.loading import load_tools

_HOMES = {
    "Catalog": "replan.tools.catalog.catalog",
    "File": "replan.tools.functions.files",
    "FunctionSource": "replan.tools.functions.source",
    "Progress": "replan.ports",
    "ToolContext": "replan.tools.functions.context",
    "current": "replan.tools.functions.context",
    "load_tools": "replan.tools.loading",
    "tool": "replan.tools.functions.decorator",
}

__all__ = ["Catalog", "File", "FunctionSource", "Progress", "ToolContext", "current", "load_tools", "tool"]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a process that runs one statement needs none of them."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'replan.tools' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
