"""Large contents in and out of the file: a commit for each piece, so that nobody waits for all of it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterable, Iterable
from functools import partial

from replan.ports import Content
from replan.store import contents
from replan.store.cutting import Cut
from replan.store.writer import Writer


async def keep(writer: Writer, stream: AsyncIterable[bytes]) -> Content:
    """Store it; of one that breaks off nothing is left."""
    number: int = await writer.submit(lambda db: contents.begin(db, time.time()), large=True, durable=False)
    cut, n = Cut(stream, contents.PIECE), 0
    try:
        async for piece in cut:

            def add(db: sqlite3.Connection, n: int = n, piece: bytes = piece) -> None:
                contents.add(db, number, n, piece, time.time())

            await writer.submit(add, large=True, durable=False)
            n += 1
        content = cut.content
        await writer.submit(lambda db: contents.finish(db, number, content, time.time()), large=True)
    except BaseException:
        shed = asyncio.ensure_future(remove(writer, [number], float("inf")))
        shed.add_done_callback(lambda done: done.cancelled() or done.exception())  # what is left is swept
        raise
    return content


async def remove(writer: Writer, numbers: Iterable[int], before: float) -> int:
    """Remove what no task uses or is about to use of these contents; how many there were of them."""
    alone: list[int] = await writer.submit(
        partial(contents.abandoned, numbers=list(numbers), before=before), large=True, durable=False
    )
    for number in alone:
        while not await writer.submit(partial(contents.shrunk, number=number), large=True, durable=False):
            pass
    return len(alone)
