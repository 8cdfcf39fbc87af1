"""Tools as strict as they were when a task was begun, and when its plan was made, for that task."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replan.core.memo import ByIdentity
from replan.core.tools.rules import Named
from replan.core.types import JsonObject, ToolId, ToolSpec
from replan.ports import Gate, Names, ToolCall, Tools
from replan.run.session.context import Run


class HeldTools:
    """`Tools` of which some are taken more strictly than they say."""

    def __init__(
        self, tools: Tools, held: Mapping[ToolId, JsonObject], yes: Sequence[tuple[str, bool]] = ()
    ) -> None:
        """`yes`: patterns of tools, and whether their calls need a person's yes, by the rules that the task was begun with."""
        self._tools = tools
        self._held = held
        self._yes = yes
        self._made: ByIdentity[ToolSpec] = ByIdentity(self._make)

    def _make(self, spec: ToolSpec) -> ToolSpec:
        held = self._held.get(spec.id, {})
        if self._yes and not spec.requires_approval and self._wants_yes(spec):
            held = {**held, "requires_approval": True}
        return spec.model_copy(update=held) if held else spec

    def _wants_yes(self, spec: ToolSpec) -> bool:
        known = self._tools.named(spec.id) if isinstance(self._tools, Names) else None
        named = known or Named(spec.id, spec.source, spec.id)
        return next((wanted for pattern, wanted in reversed(self._yes) if named.fits(pattern)), False)

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


def hold(run: Run, held: Mapping[ToolId, JsonObject]) -> None:
    """From here on the tools are taken so for this task."""
    if held or run.state.yes_by_rules:
        run.parts = replace(run.parts, tools=HeldTools(run.parts.tools, held, run.state.yes_by_rules))


def as_they_are(tools: Tools) -> Tools:
    """The tools as their sources and the user have them, for whatever task."""
    return tools.as_they_are if isinstance(tools, HeldTools) else tools
