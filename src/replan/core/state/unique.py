"""The effects that were begun, by what tells those of one tool apart (`core.calls.telling`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replan.core.calls.telling import unique_text
from replan.core.state.progress import CallState
from replan.core.types import JsonObject, ToolId, ToolSpec


@dataclass(slots=True)
class Unique:
    """It keeps what it has found."""

    _by_tool: dict[ToolId, tuple[tuple[str, ...], dict[str, list[CallState]]]] = field(default_factory=dict)
    _seen: dict[ToolId, int] = field(default_factory=dict)

    def calls(self, tool: ToolSpec, parameters: JsonObject, made: Sequence[CallState]) -> Sequence[CallState]:
        """Those of the calls `made` of this tool, in their order, that have the same effect as one with these parameters, as the log
        would have them."""
        return self.of_text(tool, unique_text(tool, parameters), made)

    def of_text(self, tool: ToolSpec, text: str, made: Sequence[CallState]) -> Sequence[CallState]:
        """The same, by what tells it."""
        known = self._by_tool.get(tool.id)
        if known is None or known[0] != tool.unique_by:  # another release says otherwise
            known = self._by_tool[tool.id] = tool.unique_by, {}
            self._seen[tool.id] = 0
        for call in made[self._seen[tool.id] :]:
            known[1].setdefault(unique_text(tool, call.parameters), []).append(call)
        self._seen[tool.id] = len(made)
        return known[1].get(text, ())
