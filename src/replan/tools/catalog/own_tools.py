"""A catalogue with Replan's own tools: known by name, and not among those that the sources have listed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from replan.core.own_tools.listed import OWN
from replan.core.tools.rules import Named, ToolRules, admits
from replan.core.types import ToolId, ToolSpec
from replan.core.waits.tools import CREATE_CALLBACK, SOURCE
from replan.errors import ToolCallError
from replan.ports import Denies, Gate, Names, ToolCall, Tools

_NAMES = {spec.id for spec in OWN}


class WithOwnTools:
    """`Tools` with which a plan can wait and ask a model too. A tool of the user's that has one of their names is meant by it."""

    def __init__(self, tools: Tools, rules: ToolRules) -> None:
        self._tools = tools
        self._own = {spec.id: spec for spec in OWN if admits(rules, Named(spec.id, SOURCE, spec.id))}
        self.gate: Callable[[ToolId], Gate | None] = tools.gate

    def specs(self) -> list[ToolSpec]:
        return self._tools.specs()

    def resolve(self, name: str) -> ToolSpec | None:
        return self._tools.resolve(name) or self._own.get(name)

    def nearest(self, name: str, n: int = 3) -> list[str]:
        return self._tools.nearest(name, n)

    @property
    def problems(self) -> Sequence[object]:
        return self._tools.problems

    def named(self, tool_id: str) -> Named | None:
        return self._tools.named(tool_id) if isinstance(self._tools, Names) else None

    def denied(self, name: str) -> bool:
        own = name in _NAMES and name not in self._own
        return own or (isinstance(self._tools, Denies) and self._tools.denied(name))

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        if call.tool_id not in self._own or self._tools.resolve(call.tool_id) is not None:
            return self._tools.call(call)
        return self._call(call)

    async def _call(self, call: ToolCall) -> Any:
        if call.tool_id != CREATE_CALLBACK.id:
            raise ToolCallError(
                f"{call.tool_id!r} is for plans: the task itself carries it out", happened="no"
            )
        return {"task_id": call.task_id, "token": f"cb_{secrets.token_urlsafe(18)}"}
