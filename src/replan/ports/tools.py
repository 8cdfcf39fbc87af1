"""Many sources of tools as one, with their limits: what the loop sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from replan.core.tools.rules import Named
from replan.core.types import ToolId, ToolSpec
from replan.ports.tool_sources import ToolCall


class Gate(Protocol):
    """The limits of one tool: how many calls side by side, how many in a time."""

    def try_enter(self) -> bool:
        """Take a call's right to be made, if there is one now and nobody waits for it."""
        ...

    async def enter(self, urgency: float = 0.0) -> None:
        """Wait for it; of those who wait, the most urgent comes first."""
        ...

    def opens_in_time(self) -> bool:
        """True if whoever waits is let in as time passes, whatever becomes of the calls inside."""
        ...

    def begin(self) -> None:
        """The call is made now."""
        ...

    def leave(self) -> None:
        """The call has ended."""
        ...

    def give_back(self) -> None:
        """The right is not used: the call is not made after all."""
        ...


class Tools(Protocol):
    """Many sources as one: what the loop sees of them."""

    def specs(self) -> list[ToolSpec]: ...
    def resolve(self, name: str) -> ToolSpec | None:
        """The tool of that id, name or alias, whatever its case and separators."""
        ...

    def nearest(self, name: str, n: int = 3) -> list[str]: ...
    @property
    def problems(self) -> Sequence[object]:
        """Sources and tools that cannot be used, each with the reason as its text."""
        ...

    def gate(self, tool_id: ToolId) -> Gate | None:
        """The tool's limits, where it has any; whoever calls it enters first, begins, and leaves."""
        ...

    async def call(self, call: ToolCall) -> Any: ...


@runtime_checkable
class Denies(Protocol):
    """`Tools` that know of tools which are there and may not be used."""

    def denied(self, name: str) -> bool:
        """True for the id of such a tool."""
        ...


@runtime_checkable
class Names(Protocol):
    """`Tools` that know by which names each may be meant in a pattern."""

    def named(self, tool_id: ToolId) -> Named | None: ...
