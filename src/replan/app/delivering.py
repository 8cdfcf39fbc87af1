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
from replan.projections.webhooks import PREFIX, Webhook
from replan.wiring import audit_consumers, webhooks_of

CONFIGURED: Mapping[str, type] = {kafka.NAME: kafka.KafkaAudit, audit_file.NAME: audit_file.AuditFile}
FROM_NOW = (Webhook,)
"""What had come to an end before somebody was to be told of it is no news."""
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
    own = Webhook if consumer.name.startswith(PREFIX) else CONFIGURED.get(consumer.name)
    if own is not None and not isinstance(consumer, own):
        what = "webhooks" if own is Webhook else "audit records"
        raise InputError(
            f"{consumer.name!r} is the name of what the configuration delivers {what} to; give another one"
        )


def configured_names(settings: Settings) -> tuple[str, ...]:
    """Under which names the log is delivered to whom the settings name."""
    named = ((kafka.NAME, settings.kafka_service.enabled), (audit_file.NAME, settings.audit.file is not None))
    audited = tuple(name for name, wanted in named if wanted)
    return (*audited, *(f"{PREFIX}{name}" for name in settings.webhooks.endpoints))


def configured(running: Running, settings: Settings) -> list[Consumer]:
    """Whom the settings name; `ConfigError` for what cannot be."""
    secrets, store = running.service.parts.secrets, running.service.parts.store
    return [*audit_consumers(settings, secrets), *webhooks_of(settings, secrets, store)]


@contextlib.asynccontextmanager
async def telling(running: Running, settings: Settings) -> AsyncIterator[None]:
    """Meanwhile deliver the log to whom the settings name."""
    consumers = configured(running, settings)
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
    webhook = isinstance(consumer, FROM_NOW)
    try:
        await deliver(running, consumer, from_now=webhook, pace=None if webhook else AUDIT_PACE)
    except ReplanError as error:
        hidden = running.service.parts.secrets.hide(str(error))
        log.error("nothing is delivered to %s any more, until this starts again: %s", consumer.name, hidden)
