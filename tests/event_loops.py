"""The event loop of each test, which hears nothing of loops that are closed.

gRPC has one poller for all loops of a process: what happens to a call or a server of an earlier test is read in the loop of
whichever test runs then, and is to be handed to a loop that is no longer there.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

CLOSED = "Event loop is closed"


def is_for_another_loop(context: dict[str, Any]) -> bool:
    """Whether gRPC's poller found an event for a loop that is closed."""
    error, callback = context.get("exception"), getattr(context.get("handle"), "_callback", None)
    method = callback.func if isinstance(callback, functools.partial) else callback
    poller = type(getattr(method, "__self__", None))
    return (
        isinstance(error, RuntimeError)
        and str(error) == CLOSED
        and (poller.__module__, poller.__name__) == ("grpc._cython.cygrpc", "PollerCompletionQueue")
    )


class Loop(asyncio.SelectorEventLoop):
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not is_for_another_loop(context):
            super().call_exception_handler(context)
