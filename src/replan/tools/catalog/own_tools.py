"""A catalogue with Replan's own tools: known by name, and not among those that the sources have listed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from replan.core.own_tools.listed import OWN
from replan.core.own_tools.model import MODEL
from replan.core.tools.rules import Named, ToolRule, ToolRules, admits, applied, rule_of
from replan.core.types import ToolId, ToolSpec
from replan.core.waits.tools import CREATE_CALLBACK, SOURCE
from replan.errors import ToolCallError
from replan.ports import Denies, Gate, Names, ToolCall, Tools
from replan.tools.catalog.limiter import Gate as LimitsGate

_NAMES = {spec.id for spec in OWN}


def _named(spec: ToolSpec) -> Named:
    return Named(spec.id, SOURCE, spec.id)


class WithOwnTools:
    """`Tools` with which a plan can wait and ask a model too. A tool of the user's that has one of their names is meant by it."""

    def __init__(self, tools: Tools, rules: ToolRules) -> None:
        self._tools = tools
        self._own = {spec.id: spec for spec in OWN if admits(rules, _named(spec))}
        self.gate: Callable[[ToolId], Gate | None] = tools.gate
        self._of_models = LimitsGate.of(self._ruled(rules))
        if self._of_models is not None:
            self.gate = self._gate

    def _ruled(self, rules: ToolRules) -> ToolRule | None:
        """What is decided about the tool that asks a model, of what can be; it is taken so from here on."""
        rule = rule_of(rules, _named(MODEL)) if MODEL.id in self._own else None
        if rule is not None:
            of_call = ToolRule(requires_approval=rule.requires_approval, timeout_secs=rule.timeout_secs)
            self._own[MODEL.id] = applied(of_call, MODEL)
        return rule

    def _gate(self, tool_id: ToolId) -> Gate | None:
        own = tool_id == MODEL.id and self._tools.resolve(tool_id) is None
        return self._of_models if own else self._tools.gate(tool_id)

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
