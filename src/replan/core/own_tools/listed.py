"""Which tools are Replan's own, and which of them may be used."""

from __future__ import annotations

from collections.abc import Callable

from replan.core.own_tools.model import MODEL
from replan.core.types import ToolSpec
from replan.core.waits.tools import BUILT_IN

OWN = (*BUILT_IN, MODEL)


def own_tools(resolve: Callable[[str], ToolSpec | None]) -> list[ToolSpec]:
    """Those that may be used: all of them, unless the user denies some or has tools of these names."""
    found = ((spec, resolve(spec.id)) for spec in OWN)
    return [tool for spec, tool in found if tool is not None and (tool is spec or tool.asks_model)]
