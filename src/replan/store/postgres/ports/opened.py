"""The database while it is open: its connections and their thread, and what all parts of the store share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import psycopg

from replan.errors import ReplanError, StoreError
from replan.store.postgres import schema
from replan.store.postgres.address import Address
from replan.store.postgres.ears import Ears
from replan.store.postgres.faults import FAULTS, passes, translated
from replan.store.postgres.kept.contents import Contents
from replan.store.postgres.line import Line, Lines, Params, Patience, Row
from replan.store.postgres.outbox import PostgresOutbox
from replan.store.postgres.presence import Presence
from replan.store.postgres.shared import Shared as SharedDatabase
from replan.store.postgres.worker_loop import WorkerLoop
from replan.store.postgres.writer import Writer

T = TypeVar("T")


class Opened:
    """The database while it is open: its connections and their thread, and what all parts of the store share."""

    def __init__(
        self, dsn: str, *, busy_secs: float = 60.0, lines: int = 4, answer_secs: float = 10.0
    ) -> None:
        self._address = Address(dsn)
        self.shown = self._address.shown
        self._busy_secs = busy_secs
        self._home = WorkerLoop()
        self._ears = Ears()
        self._driven: dict[str, int] = {}
        """Tasks that this store drives: their fences."""
        self._others = False
        self._seal_key: bytes | None = None
        self._shared: SharedDatabase | None = None
        self._delivering: SharedDatabase | None = None
        self._outbox: PostgresOutbox | None = None
        self._closed = False
        self._contents = Contents(lambda work: self._do(self._lined(work)))
        self._presence: Presence
        self._writer: Writer
        self._lines: Lines
        self._line: Line
        try:
            self._home.call(self._open(lines, answer_secs))
        except (*FAULTS, ReplanError) as error:
            self._home.stop()
            raise translated(error, self.shown) from None

    async def _open(self, lines: int, answer_secs: float) -> None:
        connection = await psycopg.AsyncConnection.connect(**self._address.given, autocommit=True)
        try:
            await schema.prepare(connection, self._address)
        finally:
            connection.pgconn.finish()
        self._lines = Lines(self._address, lines, answer_secs=answer_secs)
        self._line = Line(self._address, answer_secs=answer_secs)
        self._presence = Presence(self._address, self._ears, self._ask)
        await self._presence.enter()
        self._writer = Writer(
            self._line, self._lines, self.shown, self._home, busy_secs=self._busy_secs, changed=self._appended
        )
        for work in (self._writer.work, self._presence.stay, self._presence.look, self._presence.tell):
            self._home.spawn(work())

    async def aclose(self) -> None:
        """Finish what is queued, end followers, and let go of every task."""
        if self._closed:
            return
        self._closed = True
        await self._home.do(self._writer.finish(), self._fault)
        self._ears.all()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._home.stop(self._presence.leave)
        self._lines.drop()
        self._line.drop()
        for shared in (self._shared, self._delivering):
            if shared is not None:
                shared.close()

    async def _ask(self, statement: str, params: Params | None = None) -> list[Row]:
        async with self._lines.one() as line:
            rows: list[Row] = await line.ask(statement, params)
            return rows

    async def _ask_again(self, statement: str, params: Params | None = None) -> list[Row]:
        """For what may be asked as often as one likes: until there is an answer."""
        patience = Patience(self._busy_secs)
        while True:
            try:
                return await self._ask(statement, params)
            except FAULTS as error:
                if not passes(error) or not await patience.again():
                    raise

    def _fault(self, error: BaseException) -> BaseException:
        return translated(error, self.shown)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise StoreError(f"the store {self.shown} is closed")
        return await self._home.do(work, self._fault)

    def _appended(self, task_id: str) -> None:
        self._ears.changed(task_id, signal=False)
        self._presence.changed(task_id)

    async def _lined(self, work: Callable[[Line], Coroutine[Any, Any, T]]) -> T:
        """For what may be done as often as one likes: until it is done."""
        patience = Patience(self._busy_secs)
        while True:
            try:
                return await self._with_line(work)
            except FAULTS as error:
                if not passes(error) or not await patience.again():
                    raise

    async def _with_line(self, work: Callable[[Line], Coroutine[Any, Any, T]]) -> T:
        async with self._lines.one() as line:
            return await work(line)
