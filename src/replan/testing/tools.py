"""Tools that do what the test says, and count it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall

_ANY_OBJECT: JsonObject = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class FakeTool:
    """What one fake tool does.

    `output`: a value, or a callable `(parameters) -> value`. `fail`: errors raised by the first calls, in order;
    a text is an error that the tool itself reports. `delay_secs`: how long each call takes.
    `progress`: messages reported on the way. `spec`: further fields of its `ToolSpec`.
    """

    output: Any = "ok"
    effect: Effect = "reads"
    fail: Sequence[BaseException | str] = ()
    delay_secs: float = 0.0
    parameters: JsonObject = field(default_factory=lambda: dict(_ANY_OBJECT))
    description: str = ""
    progress: Sequence[str] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)


class FakeSource:
    """A tool source of fake tools.

    `calls` lists every call in the order of its start, `counts` counts by tool, `running` and `most_running`
    say how many were under way at once, `cancelled` lists those that were stopped, `effects` the calls of
    tools that are not `reads` which got to their end.
    """

    def __init__(self, tools: Mapping[str, FakeTool | Any], *, name: str = "fake") -> None:
        self.name = name
        self._tools = {
            tool_id: tool if isinstance(tool, FakeTool) else FakeTool(output=tool)
            for tool_id, tool in tools.items()
        }
        self.calls: list[ToolCall] = []
        self.counts: Counter[str] = Counter()
        self.cancelled: list[ToolCall] = []
        self.effects: list[ToolCall] = []
        self.running = 0
        self.most_running = 0
        self.closed = False

    async def tools(self) -> Sequence[ToolSpec]:
        return [
            ToolSpec(
                **{
                    "id": tool_id,
                    "name": tool_id,
                    "description": tool.description or f"The fake tool {tool_id}.",
                    "parameters": tool.parameters,
                    "effect": tool.effect,
                    "source": self.name,
                    **tool.spec,
                }
            )
            for tool_id, tool in self._tools.items()
        ]

    async def call(self, call: ToolCall) -> Any:
        tool = self._tools.get(call.tool_id)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise ToolCallError(f"no tool {call.tool_id!r}; there are: {known}", kind="unknown_tool")
        self.calls.append(call)
        self.counts[call.tool_id] += 1
        nth = self.counts[call.tool_id]
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            for position, message in enumerate(tool.progress, start=1):
                if call.report is not None:
                    call.report(Progress(message, float(position), float(len(tool.progress))))
            await asyncio.sleep(tool.delay_secs)
            if nth <= len(tool.fail):
                fault = tool.fail[nth - 1]
                raise ToolCallError(fault) if isinstance(fault, str) else fault
            if tool.effect != "reads":
                self.effects.append(call)
            return tool.output(call.parameters) if callable(tool.output) else tool.output
        except asyncio.CancelledError:
            self.cancelled.append(call)
            raise
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        self.closed = True


def fake_source(
    tools: Mapping[str, FakeTool | Callable[[JsonObject], Any] | Any], *, name: str = "fake"
) -> FakeSource:
    """A source of fake tools: `{"weather": FakeTool(...), "add": lambda parameters: …, "hello": "a fixed output"}`."""
    return FakeSource(tools, name=name)
