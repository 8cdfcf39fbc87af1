"""One call on its way, and what the transport sees of it.

The task that makes a call has its `Exchange` in a context variable. The library carries the context of whoever sends
a message to whoever writes it, so an HTTP request, and a question that comes back on its stream, know their call.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.bounds import traceparent


class Exchange:
    """A call, or the opening of a connection (`call` None). `failed` is done when the transport gives it up."""

    def __init__(self, call: ToolCall | None = None) -> None:
        self.call = call
        self.over = False
        """The caller has gone: nothing is reported or asked any more."""
        self.failed: asyncio.Future[ToolCallError] = asyncio.get_running_loop().create_future()

    def fail(self, error: ToolCallError) -> None:
        """The first failure is the one that counts."""
        if not self.failed.done():
            self.failed.set_result(error)

    @property
    def failure(self) -> ToolCallError | None:
        return self.failed.result() if self.failed.done() and not self.failed.cancelled() else None

    def headers(self) -> dict[str, str]:
        """What an HTTP request says of its call, for servers and what stands before them."""
        if self.call is None:
            return {}
        return {"traceparent": traceparent(self.call), "Idempotency-Key": f'"{self.call.key}"'}


EXCHANGE: ContextVar[Exchange | None] = ContextVar("replan_mcp_exchange", default=None)
