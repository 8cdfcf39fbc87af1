"""That this process lives, as others see it, and what it hears from them: one connection for both.

As long as the connection is there the session holds an advisory lock with the store's number. A task's row names the
number of whoever drives it; a process that dies loses the lock with its connection, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable

import psycopg

from replan.core.data.strict_json import storable
from replan.store.postgres.address import Address
from replan.store.postgres.ears import Ears
from replan.store.postgres.faults import FAULTS
from replan.store.postgres.line import ANSWER_SECS, Line, Row, answered_within

SPACE = 1_380_993_102
"""The first half of every lock's key, so that nobody else's locks are taken for ours."""
CHANNEL = "replan_log"
LOOK_SECS = 2.0
_GATHER_SECS = 0.03
"""So long what has changed is gathered before others are told."""
_LEAVE_SECS = 2.0
_MOST_BYTES = 7_000
"""A notification takes less than 8,000."""
_LOCKED = f"""EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {SPACE} AND objid = {{holder}}::oid AND objsubid = 2
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted)"""
_FRESH = "make_interval(secs => w.stale_secs)"
ALIVE = f"""coalesce((SELECT w.seen > now() - {_FRESH} OR pg_postmaster_start_time() > now() - {_FRESH}
 FROM worker w WHERE w.number = {{holder}}), {_LOCKED})"""
"""Whether the process with that number lives. A worker lives as long as it says so itself: one that was frozen, or is cut
off, keeps its lock. After a start of the server nobody could."""
OTHERS = f"""SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = {SPACE} AND objid <> %(mine)s::int::oid
 AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted"""
_LOOK = "SELECT task_id, last_seq, last_signal FROM task WHERE task_id = ANY(%(tasks)s::text[])"


def told(sender: int, tasks: list[str] | None, *, signal: bool) -> str:
    """What a notification says. `tasks` None: of any, as they are too many to be named."""
    text = json.dumps({"from": sender, "tasks": tasks, "signal": signal})
    return text if tasks is None or len(text) < _MOST_BYTES else told(sender, None, signal=signal)


class Presence:
    """The lock, the ears' connection, and the line by which others are told what has changed."""

    def __init__(self, address: Address, ears: Ears, ask: Callable[..., Awaitable[list[Row]]]) -> None:
        self.mine = secrets.randbelow(2**31 - 1) + 1
        self._address = address
        self._ears = ears
        self._ask = ask
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._connection: psycopg.AsyncConnection[Row] | None = None
        self._channels: dict[str, Callable[[str], None]] = {}
        """What else is heard, by whom. An empty text: something may have been missed."""
        self._telling = Line(address, ready=_unsynced)

    async def enter(self) -> None:
        """Take the lock and begin to listen."""
        made = await psycopg.AsyncConnection.connect(**self._address.given, autocommit=True)
        try:
            with answered_within(ANSWER_SECS, made):
                for channel in (CHANNEL, *self._channels):
                    await made.execute(f'LISTEN "{channel}"'.encode())
                # The session that was lost may still hold it, for a while; then this one lives by that.
                await made.execute("SELECT pg_try_advisory_lock(%s::int, %s::int)", (SPACE, self.mine))
        except BaseException:
            made.pgconn.finish()
            raise
        self._connection = made

    async def stay(self) -> None:
        """Hear what others say; come back whenever the connection is lost."""
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    await self.enter()
                    self._ears.all()  # what was said meanwhile was not heard
                    for missed in list(self._channels.values()):
                        missed("")
                assert self._connection is not None
                async for notification in self._connection.notifies(timeout=LOOK_SECS):
                    if notification.channel == CHANNEL:
                        self._heard(notification.payload)
                    elif (heard := self._channels.get(notification.channel)) is not None:
                        heard(notification.payload)
                with answered_within(ANSWER_SECS, self._connection):
                    await self._connection.execute(
                        "SELECT pg_try_advisory_lock(%s::int, %s::int) WHERE NOT "
                        + _LOCKED.format(holder=self.mine),
                        (SPACE, self.mine),
                    )
            except FAULTS:
                self._drop()
                await asyncio.sleep(0.2)

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Hear another channel as well, over the same connection."""
        self._channels[channel] = heard
        if self._connection is not None:
            # Where it is lost it is made anew, with all channels.
            with contextlib.suppress(*FAULTS), answered_within(ANSWER_SECS, self._connection):
                await self._connection.execute(f'LISTEN "{channel}"'.encode())

    def deafen(self, channel: str) -> None:
        self._channels.pop(channel, None)

    async def look(self) -> None:
        """The slow look, for what was not heard."""
        while True:
            await asyncio.sleep(LOOK_SECS)
            if tasks := self._ears.tasks():
                with contextlib.suppress(*FAULTS):  # at the next time
                    rows = await self._ask(_LOOK, {"tasks": [storable(name) for name in tasks]})
                    self._ears.look({row[0]: row[1:] for row in rows}, tasks)

    def changed(self, task_id: str) -> None:
        """Tell other processes, soon, that something was appended there."""
        self._changed.add(task_id)
        self._news.set()

    async def tell(self) -> None:
        """Pass on what has changed, gathered, and never in the transaction that changed it: a notification's
        commit takes a lock that is one for the whole server."""
        while True:
            await self._news.wait()
            await asyncio.sleep(_GATHER_SECS)
            self._news.clear()
            tasks, self._changed = sorted(self._changed), set()
            with contextlib.suppress(*FAULTS):  # the slow look finds it
                await self._telling.ask(
                    "SELECT pg_notify(%(channel)s::text, %(text)s::text)",
                    {"channel": CHANNEL, "text": told(self.mine, tasks, signal=False)},
                )

    def _heard(self, payload: str) -> None:
        try:
            said = json.loads(payload)
            sender, tasks, signal = said["from"], said["tasks"], bool(said["signal"])
        except (ValueError, KeyError, TypeError):
            return
        if sender == self.mine:
            return
        if tasks is None:
            self._ears.all()
        else:
            for task_id in tasks:
                self._ears.changed(task_id, signal=signal)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.pgconn.finish()
            self._connection = None

    async def leave(self) -> None:
        """Let go of the lock, so that others see at once that nobody is here; with the connection it goes in any case."""
        if (connection := self._connection) is not None and not connection.closed:
            with contextlib.suppress(*FAULTS), answered_within(_LEAVE_SECS, connection):
                await connection.execute("SELECT pg_advisory_unlock_all()")
        self._drop()
        self._telling.drop()


async def _unsynced(connection: psycopg.AsyncConnection[Row]) -> None:
    await connection.execute("SET synchronous_commit = off")
