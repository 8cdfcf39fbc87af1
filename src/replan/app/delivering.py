"""A `Replan` that delivers its log to a consumer."""

from __future__ import annotations

import asyncio
import contextlib

from replan.app.running import Running
from replan.errors import InputError
from replan.ports import Consumer, HasOutbox, Outbox
from replan.projections.delivery import Delivery


def outbox_of(running: Running) -> Outbox:
    """Where the log is delivered from; `InputError` for a store that keeps no cursors."""
    store = running.service.parts.store
    if not isinstance(store, HasOutbox):
        raise InputError(
            f"{type(store).__name__} keeps no cursors: the log of a SQLite or PostgreSQL database is delivered"
        )
    return store.outbox()


async def deliver(running: Running, consumer: Consumer, *, from_now: bool) -> None:
    """Until the caller is cancelled, or the `Replan` is closed."""
    delivery = Delivery(outbox_of(running), consumer, hide=running.service.parts.secrets.hide)
    delivering = asyncio.create_task(delivery.run(from_now=from_now))
    with running.beside(delivering):
        try:
            await asyncio.shield(delivering)
        except asyncio.CancelledError:
            if not delivering.done():  # else the `Replan` was closed
                delivering.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await delivering
                raise
