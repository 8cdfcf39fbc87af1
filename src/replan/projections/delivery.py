"""Delivers the log to one consumer, batch by batch, for as long as this process is the one that does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from replan.errors import StaleWriter, StoreError
from replan.ports import Batch, Consumer, NotTaken, Outbox, Reading

T = TypeVar("T")
log = logging.getLogger("replan")


class Pace(NamedTuple):
    """How often is looked, and how long is waited."""

    look_secs: float = 0.2
    """Between two looks that find nothing, or longer where a look takes long."""
    beat_secs: float = 5.0
    take_secs: float = 2.0
    """Until it is tried again to become the one who delivers."""
    first_pause_secs: float = 1.0
    """After a batch that was refused; twice as long after each more."""
    longest_pause_secs: float = 300.0


_LOOK_SHARE, _LONGEST_LOOK_SECS = 20, 10.0
_LONGEST_AWAY_SECS = 30.0
_GRACE_SECS = 5.0


class Delivery:
    """One consumer's. `hide` takes the secrets out of an error that is written down."""

    def __init__(
        self,
        outbox: Outbox,
        consumer: Consumer,
        *,
        pace: Pace | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._outbox = outbox
        self._consumer = consumer
        self._pace = pace or Pace()
        self._hide = hide
        self._failures = 0
        self._error: str | None = None
        self._not_before = 0.0
        """How long a consumer wants to be left alone, in seconds from its refusal."""

    async def run(self, *, from_now: bool = False) -> None:
        """Until it is cancelled. The database may be away, and the consumer may fail, for as long as they like.

        `InputError` if the consumer's name cannot be one, or it is forgotten meanwhile.
        """
        name = self._consumer.name
        await self._patiently(lambda: self._outbox.register(name, from_now=from_now))
        while True:
            reading = await self._patiently(lambda: self._outbox.take(name))
            if reading is None:
                await asyncio.sleep(self._pace.take_secs)
                continue
            try:
                await self._deliver(reading)
            except StaleWriter:
                log.info("another process delivers to %s now", name)
            finally:
                with contextlib.suppress(StoreError):
                    await asyncio.shield(self._outbox.leave(reading))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Until the database answers."""
        tries = 0
        while True:
            try:
                return await ask()
            except StaleWriter:
                raise
            except StoreError as error:
                tries += 1
                log.warning(
                    "delivery to %s waits for the database: %s", self._consumer.name, self._hide(str(error))
                )
                await asyncio.sleep(self._pause(tries, _LONGEST_AWAY_SECS))

    async def _deliver(self, reading: Reading) -> None:
        """As long as this process is the one, with a word now and then that it lives."""
        delivering = asyncio.create_task(self._batches(reading))
        beating = asyncio.create_task(self._beat(reading))
        try:
            await asyncio.wait({delivering, beating}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (delivering, beating):
                task.cancel()
            done = await asyncio.gather(delivering, beating, return_exceptions=True)
        for ended in done:
            if isinstance(ended, Exception):
                raise ended

    async def _beat(self, reading: Reading) -> None:
        while True:
            await asyncio.sleep(self._pace.beat_secs)
            await self._say(reading)

    async def _say(self, reading: Reading) -> None:
        await self._patiently(lambda: self._outbox.beat(reading, failures=self._failures, error=self._error))

    async def _batches(self, reading: Reading) -> None:
        while True:
            since = time.monotonic()
            batch = await self._patiently(lambda: self._outbox.next(reading))
            if not batch.records:
                took = time.monotonic() - since
                await asyncio.sleep(min(max(self._pace.look_secs, _LOOK_SHARE * took), _LONGEST_LOOK_SECS))
            elif not await self._seen_through(reading, batch):
                pause = self._pause(self._failures, self._pace.longest_pause_secs)
                await asyncio.sleep(max(pause, min(self._not_before, self._pace.longest_pause_secs)))

    async def _seen_through(self, reading: Reading, batch: Batch) -> bool:
        """Whether the consumer has taken the batch. What has begun may end, with its cursor, where this is cancelled."""
        handing = asyncio.create_task(self._hand_over(reading, batch))
        try:
            return await asyncio.shield(handing)
        except asyncio.CancelledError:
            await asyncio.wait({handing}, timeout=_GRACE_SECS)
            handing.cancel()
            await asyncio.gather(handing, return_exceptions=True)
            raise

    async def _hand_over(self, reading: Reading, batch: Batch) -> bool:
        try:
            await self._consumer.deliver(batch.records)
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, the batch comes again
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # else it is the consumer's own
            self._failures += 1
            self._not_before = error.after_secs if isinstance(error, NotTaken) else 0.0
            named = "" if isinstance(error, NotTaken) else f"{type(error).__name__}: "
            self._error = self._hide(f"{named}{error}")
            log.warning(
                "%s has refused %d events, which come again: %s",
                self._consumer.name,
                len(batch.records),
                self._error,
            )
            await self._say(reading)
            return False
        self._failures, self._error = 0, None
        await self._patiently(lambda: self._outbox.delivered(reading, batch))
        return True

    def _pause(self, times: int, longest: float) -> float:
        secs = min(self._pace.first_pause_secs * 2.0 ** min(times - 1, 30), longest)
        return secs * (0.75 + random.random() / 4)
