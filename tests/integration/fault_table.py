"""The faults that any source of tools may have, and what a task makes of one.

`faults_*.py` beside this file are taken up by themselves: each has `SOURCE`, a name, and `FAULTS`, which says for
every one of `ROWS` how to bring it about: a function that gives an asynchronous context manager of a `Broken`, or a
text that says why there can be no such fault with this source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replan import Replan
from replan.core.events import Record
from replan.core.types import Fault
from replan.ports import ToolCall, ToolSource

ROWS = (
    "killed before",
    "killed in",
    "killed after",
    "hang",
    "slow list",
    "huge result",
    "invalid JSON",
    "changed schema",
    "unauthorized",
    "refused",
)
DEADLINE = 1.5
"""Seconds that a step has whose fault may be that its time is over."""
PATIENCE = 30.0
"""Seconds that any other has, on a machine however busy."""


async def _nothing() -> None:
    return None


@dataclass
class Broken:
    """A source with one fault, and what is right for a step that meets it."""

    source: ToolSource
    tool: str
    """Its id, as the source says it."""
    parameters: dict[str, Any] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    """The kinds of fault (`core.failures.faults.FaultKind`) that the step may end with; none: it has to succeed."""
    happened: str | None = None
    """Whether the effect may have taken place, as the fault says it; None: either way."""
    prepare: Callable[[], Awaitable[None]] = _nothing
    """Called when the tools are listed, before the task: the server is killed there, or its schema changed."""
    mend: Callable[[], Awaitable[None]] | None = None
    """Takes the fault away (starts the server again); then `works` has to succeed through the same source."""
    works: ToolCall | None = None
    lists: bool = True
    """False: the source cannot be listed while the fault is there, and is reported; nothing of it is called."""

    @property
    def deadline(self) -> float:
        return DEADLINE if "timeout" in self.kinds else PATIENCE


Fault_ = Callable[[], AbstractAsyncContextManager[Broken]]


async def healthy(n: int) -> int:
    """One more than the number."""
    return n + 1


async def observe(broken: Broken, folder: Path) -> tuple[list[Record], Fault | None, float]:
    """Run a task of one faulty step beside a chain of healthy ones.

    Gives the events, the fault of the faulty step (None: it succeeded) and the seconds between its start and end.
    """
    steps = [
        {
            "step_id": "faulty",
            "tool": broken.tool,
            "parameters": broken.parameters,
            "timeout_secs": broken.deadline,
        },
        {"step_id": "first", "tool": "healthy", "parameters": {"n": 1}},
        {"step_id": "second", "tool": "healthy", "parameters": {"n": "${first.output}"}},
        {"step_id": "third", "tool": "healthy", "parameters": {"n": "${second.output}"}},
    ]
    if not broken.lists:
        steps = steps[1:]
    async with Replan(tools=[healthy, broken.source], db=folder / "replan.db") as replan:
        await broken.prepare()
        task = await replan.submit("faulty", plan={"steps": steps}, evaluation="steps")
        await replan.wait(task)
        records = [record async for record in replan.watch(task)]
        if broken.mend is not None and broken.works is not None:
            await broken.mend()
            await broken.source.call(broken.works)
    begun = ended = 0.0
    fault: Fault | None = None
    for record in records:
        event = record.event
        if getattr(event, "step_id", None) == "faulty":
            if event.type == "step_started":
                begun = record.ts
            elif event.type in ("step_failed", "step_completed"):
                ended = record.ts
                fault = getattr(event, "error", None)
    return records, fault, ended - begun
