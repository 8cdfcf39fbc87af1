"""`ports.Store` on PostgreSQL."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping

from replan.core.tools.stats import ToolKey, ToolStats
from replan.ports import Content
from replan.store.postgres import statements as sql
from replan.store.postgres import tool_memory
from replan.store.postgres.outbox import PostgresOutbox
from replan.store.postgres.ports.claims import Claims
from replan.store.postgres.ports.family import Family
from replan.store.postgres.ports.moves import Moves
from replan.store.postgres.ports.reading import Reading
from replan.store.postgres.ports.removal import Removal
from replan.store.postgres.ports.tidying import Tidying
from replan.store.postgres.ports.writing import Writing
from replan.store.postgres.shared import Shared as SharedDatabase
from replan.store.postgres.tenants.keys import PostgresKeys

LONG_ANSWER_SECS = 60.0


class PostgresStore(Claims, Writing, Reading, Family, Removal, Moves, Tidying):
    """One database, for any number of processes on any number of machines.

    `busy_secs`: how long a server that does not answer is waited for before what has to be written is given up.
    """

    async def try_write(self) -> None:
        await self._do(self._ask(sql.WRITE_NOTHING))

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        return await self._contents.whole(task_id, artifact_id)

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        return self._contents.pieces(task_id, artifact_id)

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        return await self._contents.part(task_id, artifact_id, start, size)

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        return await self._contents.keep(pieces)

    async def seal_key(self) -> bytes:
        if self._seal_key is None:
            made = secrets.token_bytes(32)

            async def work() -> bytes:
                await self._ask_again(
                    "INSERT INTO seal_key VALUES (1, %(key)s::bytea) ON CONFLICT DO NOTHING", {"key": made}
                )
                return bytes((await self._ask_again("SELECT key FROM seal_key"))[0][0])

            self._seal_key = await self._do(work())
        return self._seal_key

    def shared(self) -> SharedDatabase:
        """What an engine gets that keeps its queue in the same database."""
        if self._shared is None:
            self._shared = SharedDatabase(self._address, self._home, self._presence, self._fault)
        return self._shared

    def outbox(self) -> PostgresOutbox:
        """Where the log is delivered from: over connections of its own, since a batch may be large."""
        if self._outbox is None:
            self._delivering = SharedDatabase(
                self._address, self._home, self._presence, self._fault, lines=2, answer_secs=LONG_ANSWER_SECS
            )
            self._outbox = PostgresOutbox(self._delivering)
        return self._outbox

    def keys(self) -> PostgresKeys:
        """The API keys of a service, and what its tenants may use."""
        return PostgresKeys(lambda statement, params: self._do(self._ask_again(statement, params)))

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        await self._do(self._with_line(lambda line: tool_memory.add(line, more, time.time())))

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        return await self._do(self._with_line(tool_memory.read))

    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        kept = {source: tuple(listed) for source, listed in names.items()}
        await self._do(self._with_line(lambda line: tool_memory.remember(line, kept, time.time())))

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]:
        return await self._do(self._with_line(tool_memory.remembered))
