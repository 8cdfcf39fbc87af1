"""A server of a file that cannot be used: told once, and no reason to refuse the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replan.core.types import ToolSpec
from replan.ports import ToolCall, ToolProblem
from replan.tools.bounds import unknown_tool


class UnusableServer:
    """A `ToolSource` without tools that says why."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    async def tools(self) -> Sequence[ToolSpec]:
        return ()

    def problems(self) -> Sequence[ToolProblem]:
        return (ToolProblem(self._why),)

    async def call(self, call: ToolCall) -> Any:
        raise unknown_tool(call.tool_id, self.name, ())

    async def aclose(self) -> None:
        """It holds nothing."""
