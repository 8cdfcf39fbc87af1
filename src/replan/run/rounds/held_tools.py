"""Tools as strict as they were when a task's plan was made, for that task."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from replan.core.memo import ByIdentity
from replan.core.types import JsonObject, ToolId, ToolSpec
from replan.ports import Gate, ToolCall, Tools


class HeldTools:
    """`Tools` of which some are taken more strictly than they say."""

    def __init__(self, tools: Tools, held: Mapping[ToolId, JsonObject]) -> None:
        self._tools = tools
        self._held = held
        self._made: ByIdentity[ToolSpec] = ByIdentity(self._make)

    def _make(self, spec: ToolSpec) -> ToolSpec:
        held = self._held.get(spec.id)
        return spec if held is None else spec.model_copy(update=held)

    def specs(self) -> list[ToolSpec]:
        return [self._made(spec) for spec in self._tools.specs()]

    def resolve(self, name: str) -> ToolSpec | None:
        spec = self._tools.resolve(name)
        return None if spec is None else self._made(spec)

    def nearest(self, name: str, n: int = 3) -> list[str]:
        return self._tools.nearest(name, n)

    @property
    def problems(self) -> Sequence[object]:
        return self._tools.problems

    @property
    def as_they_are(self) -> Tools:
        return self._tools

    def gate(self, tool_id: ToolId) -> Gate | None:
        return self._tools.gate(tool_id)

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        return self._tools.call(call)


def as_they_are(tools: Tools) -> Tools:
    """The tools as their sources and the user have them, for whatever task."""
    return tools.as_they_are if isinstance(tools, HeldTools) else tools
