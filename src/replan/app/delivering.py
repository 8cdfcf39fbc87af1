"""A `Replan` that delivers its log to a consumer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping

from replan.app.running import Running
from replan.config import Settings
from replan.errors import InputError, ReplanError
from replan.ports import Consumer, HasOutbox, Outbox
from replan.projections import audit_file, kafka
from replan.projections.delivery import Delivery, Pace
from replan.wiring import audit_consumers

CONFIGURED: Mapping[str, type] = {kafka.NAME: kafka.KafkaAudit, audit_file.NAME: audit_file.AuditFile}
AUDIT_PACE = Pace(longest_pause_secs=30.0)
"""A broker that is back is noticed soon: one try costs little."""
log = logging.getLogger("replan")


def outbox_of(running: Running) -> Outbox:
    """Where the log is delivered from; `InputError` for a store that keeps no cursors."""
    store = running.service.parts.store
    if not isinstance(store, HasOutbox):
        raise InputError(
            f"{type(store).__name__} keeps no cursors: the log of a SQLite or PostgreSQL database is delivered"
        )
    return store.outbox()


async def deliver(running: Running, consumer: Consumer, *, from_now: bool, pace: Pace | None = None) -> None:
    """Until the caller is cancelled, or the `Replan` is closed."""
    check_name(consumer)
    delivery = Delivery(outbox_of(running), consumer, pace=pace, hide=running.service.parts.secrets.hide)
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


def check_name(consumer: Consumer) -> None:
    """`InputError` for somebody else under the name of one that is configured: each would get what the other has not."""
    if consumer.name in CONFIGURED and not isinstance(consumer, CONFIGURED[consumer.name]):
        raise InputError(
            f"{consumer.name!r} is the name of what the configuration delivers audit records to; give another one"
        )


def audited_names(settings: Settings) -> tuple[str, ...]:
    """Under which names audit records are delivered to whom the settings name."""
    named = ((kafka.NAME, settings.kafka_service.enabled), (audit_file.NAME, settings.audit.file is not None))
    return tuple(name for name, wanted in named if wanted)


@contextlib.asynccontextmanager
async def audited(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Meanwhile deliver audit records to whom the settings name; `ConfigError` for what cannot be."""
    consumers = audit_consumers(settings, running.service.parts.secrets)
    if consumers:
        outbox_of(running)
    delivering = [asyncio.create_task(_lasting(running, consumer)) for consumer in consumers]
    try:
        yield
    finally:
        for task in delivering:
            task.cancel()
        await asyncio.gather(*delivering, return_exceptions=True)


async def _lasting(running: Running, consumer: Consumer) -> None:
    try:
        await deliver(running, consumer, from_now=False, pace=AUDIT_PACE)
    except ReplanError as error:
        hidden = running.service.parts.secrets.hide(str(error))
        log.error(
            "audit records are not delivered to %s any more, until this starts again: %s",
            consumer.name,
            hidden,
        )
