"""One call on its way, and what the transport sees of it.

The task that makes a call has its `Exchange` in a context variable. The library carries the context of whoever sends
a message to whoever writes it, so an HTTP request, and a question that comes back on its stream, know their call.
"""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar
from typing import Any

from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.ports import Question, ToolCall
from replan.tools.bounds import traceparent


class Exchange:
    """A call, or the opening of a connection (`call` None). `failed` is done when the transport gives it up."""

    def __init__(self, call: ToolCall | None = None) -> None:
        self.call = call
        self.begun = False
        """The server has told of its progress, or asked something: it has taken the call, and its tool is at work."""
        self.sent_to: list[str] = []
        """The addresses that it was posted to: a redirect may lead on, and never back."""
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[ToolCallError] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()

    @property
    def over(self) -> bool:
        """The caller has gone: nothing is reported or asked any more."""
        return self._ended.done()

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def ask(self, question: Question) -> JsonObject | None:
        """What a person answers; None when nobody does, or the call ends first."""
        self.begun = True
        if self.call is None or self.call.ask is None or self.over:
            return None
        asking = asyncio.ensure_future(self.call.ask(question))
        try:
            either: set[asyncio.Future[Any]] = {asking, self._ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()

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
        key = re.sub(r"[^ !#-\[\]-~]", "_", self.call.key)  # a string of RFC 9651
        return {"traceparent": traceparent(self.call), "Idempotency-Key": f'"{key}"'}


EXCHANGE: ContextVar[Exchange | None] = ContextVar("replan_mcp_exchange", default=None)
