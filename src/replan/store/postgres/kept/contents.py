"""Large outputs in and out, over lines that others have their turns on."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from replan.beside import beside
from replan.errors import InputError, StoreDamaged, TaskNotFound
from replan.ports import Content
from replan.store.contents import check, damaged
from replan.store.cutting import Cut
from replan.store.postgres.kept import artifacts
from replan.store.postgres.line import Line
from replan.store.postgres.statements import PIECES

_FIND = """SELECT u.digest, a.size FROM task LEFT JOIN artifact_use u ON u.task = id AND u.artifact_id = %(artifact)s::text
 LEFT JOIN artifact a ON a.digest = u.digest WHERE task_id = %(task)s::text"""
_FIND_SHARED = (
    PIECES
    + """SELECT digest, size FROM line JOIN artifact_use ON task = line.id JOIN artifact USING (digest)
 WHERE artifact_id = %(artifact)s::text ORDER BY line.upto DESC LIMIT 1"""
)


class Contents:
    """`done`: does it on some line, again and again until it is done: it may be done as often as one likes."""

    def __init__(self, done: Callable[[Callable[[Line], Coroutine[Any, Any, Any]]], Awaitable[Any]]) -> None:
        self._done = done

    async def whole(self, task_id: str, artifact_id: str) -> bytes:
        content = await self._find(task_id, artifact_id)
        data = await self._done(lambda line: artifacts.get(line, bytes.fromhex(content.digest)))
        try:
            return check(data, content, artifact_id)
        except StoreDamaged:
            await self._find(task_id, artifact_id)  # its task may be gone by now
            raise

    async def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        try:
            async for piece in self.checked(await self._find(task_id, artifact_id), artifact_id):
                yield piece
        except StoreDamaged:
            await self._find(task_id, artifact_id)  # likewise
            raise

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        digest = bytes.fromhex((await self._find(task_id, artifact_id)).digest)
        first, within = divmod(start, artifacts.PIECE)
        most = (within + size - 1) // artifacts.PIECE + 1
        rows = await self._done(partial(artifacts.some, digest=digest, n=first, most=most))
        return b"".join(rows)[within : within + size]

    async def checked(self, content: Content, named: str) -> AsyncIterator[bytes]:
        digest, hashed, n = bytes.fromhex(content.digest), hashlib.sha256(), 0
        while rows := await self._done(partial(artifacts.some, digest=digest, n=n, most=2)):
            for piece in rows:
                await beside(hashed.update, piece)
                yield piece
            n += len(rows)
        if hashed.hexdigest() != content.digest:
            raise damaged(named)

    async def keep(self, stream: AsyncIterable[bytes]) -> Content:
        key, cut, n = secrets.token_bytes(16), Cut(stream, artifacts.PIECE), 0
        try:
            async for piece in cut:
                await self._done(partial(artifacts.add, key=key, n=n, data=piece))
                n += 1
            content = cut.content
            await self._done(partial(artifacts.finish, key=key, content=content))
        except BaseException:
            shed = asyncio.ensure_future(self._done(partial(artifacts.drop, key=key)))
            shed.add_done_callback(lambda done: done.cancelled() or done.exception())  # what is left is swept
            raise
        return content

    async def unused(self, digests: list[bytes]) -> None:
        """Remove those that no task uses or is about to use."""
        await self._done(lambda line: artifacts.unused(line, digests, artifacts.KEPT))

    async def _find(self, task_id: str, artifact_id: str) -> Content:
        asked = {"task": task_id, "artifact": artifact_id, "after": 0}
        rows = await self._done(lambda line: line.ask(_FIND, asked))
        if not rows:
            raise TaskNotFound(task_id)
        if rows[0][0] is None:
            rows = await self._done(lambda line: line.ask(_FIND_SHARED, asked)) or rows
        if rows[0][0] is None:
            raise InputError(f"task {task_id!r} has no artifact {artifact_id!r}")
        return Content(bytes(rows[0][0]).hex(), rows[0][1])
