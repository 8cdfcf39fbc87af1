"""What a tool source brings to `test_tool_source`: a `Kit`, and how to reach what its tools tell.

`kit_*.py` beside this file are taken up by themselves: each has `KITS`, a list of `pytest.param(function, id=…)`
where the function gives an asynchronous context manager of an open `Kit`.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

from replan.ports import ToolCall, ToolSource

WAIT_SECS = 10.0
_number = itertools.count(1)


class Kit:
    """A source under test, and what its tools tell the test."""

    turns = 3
    """How many turns of the event loop a cancelled call may take to end."""
    reports = True
    """False: what lies between has no place for progress, so that none is seen."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.reached = threading.Event()
        self.source: ToolSource
        self.names: dict[str, str] = {}

    def name(self, tool_id: str) -> str:
        return self.names.get(tool_id, tool_id)

    async def call(self, tool_id: str, report: Any = None, /, **parameters: Any) -> Any:
        return await self.source.call(
            ToolCall(self.name(tool_id), parameters, f"key-{next(_number)}", report=report)
        )

    async def saw_started(self) -> bool:
        """Wait until `wait` has begun; another process may tell it in another way."""
        return await asyncio.to_thread(self.started.wait, WAIT_SECS)

    async def saw_cancelled(self) -> bool:
        """Wait until the cancellation has reached `wait`."""
        return await asyncio.to_thread(self.reached.wait, WAIT_SECS)
