"""Large outputs: each content once, in pieces, written before the append that names it."""

from __future__ import annotations

import contextlib
import hashlib

from psycopg.errors import ForeignKeyViolation, UniqueViolation

from replan.errors import StoreError
from replan.ports import Content
from replan.store.postgres.line import LONG_SECS, Line, Lines, secs_for

PIECE = 1 << 20
KEPT = "1 hour"
"""So long a content that no task uses yet is left alone: its task is about to."""


async def put(line: Line | Lines, data: bytes) -> bytes:
    """Store a content; its digest. What is there already is not written again; what nobody uses is removed later."""
    digest = hashlib.sha256(data).digest()
    known = await line.ask(
        "UPDATE artifact SET touched = now() WHERE digest = %(digest)s::bytea AND %(pieces)s::bigint ="
        " (SELECT count(*) FROM artifact_piece WHERE artifact_piece.digest = artifact.digest) RETURNING 1",
        {"digest": digest, "pieces": -(-len(data) // PIECE)},
    )
    if known:
        return digest
    await line.ask(
        "INSERT INTO artifact (digest, size) VALUES (%(digest)s::bytea, %(size)s::bigint)"
        " ON CONFLICT (digest) DO UPDATE SET touched = now()",
        {"digest": digest, "size": len(data)},
    )
    for n, at in enumerate(range(0, len(data), PIECE)):
        await line.ask(
            "INSERT INTO artifact_piece VALUES (%(digest)s::bytea, %(n)s::int, %(data)s::bytea) ON CONFLICT DO NOTHING",
            {"digest": digest, "n": n, "data": data[at : at + PIECE]},
            more_secs=secs_for(PIECE),
        )
    return digest


async def get(line: Line, digest: bytes) -> bytes:
    """The whole content, as it lies there."""
    pieces: list[bytes] = []
    while rows := await some(line, digest, len(pieces), 8):
        pieces += rows
        if len(rows) < 8:
            break
    return b"".join(pieces)


async def some(line: Line, digest: bytes, n: int, most: int) -> list[bytes]:
    """Pieces of a content from number `n` on."""
    rows = await line.ask(
        "SELECT data FROM artifact_piece WHERE digest = %(digest)s::bytea AND n >= %(n)s::int ORDER BY n LIMIT %(most)s::int",
        {"digest": digest, "n": n, "most": most},
        more_secs=secs_for(most * PIECE),
    )
    return [bytes(row[0]) for row in rows]


async def add(line: Line, key: bytes, n: int, data: bytes) -> None:
    """The next piece of a content that comes as a stream, under a key of its own, which nobody looks for; also once more."""
    params = {"digest": key, "n": n, "data": data}
    if n == 0:
        await line.ask(
            "INSERT INTO artifact (digest, size) VALUES (%(digest)s::bytea, 0) ON CONFLICT DO NOTHING",
            {"digest": key},
        )
    await line.ask(
        """WITH a AS (UPDATE artifact SET touched = now() WHERE digest = %(digest)s::bytea RETURNING digest)
INSERT INTO artifact_piece SELECT digest, %(n)s::int, %(data)s::bytea FROM a ON CONFLICT DO NOTHING""",
        params,
        more_secs=secs_for(len(data)),
    )


async def finish(line: Line, key: bytes, content: Content) -> None:
    """It is whole now, and found under its digest. The server moves no bytes for that; what is there already stays."""
    params = {"digest": bytes.fromhex(content.digest), "key": key, "size": content.size}
    await line.ask(MADE, params)
    while True:
        try:
            await line.ask(MOVED, params)
            break
        except UniqueViolation:  # somebody has just stored the same
            continue
    there = await line.ask(
        "SELECT count(*) FROM artifact_piece WHERE digest = %(digest)s::bytea", {"digest": params["digest"]}
    )
    if there[0][0] != -(-content.size // PIECE):
        raise StoreError(
            "what was stored of a large output was removed meanwhile: it came to a halt for too long"
        )
    await drop(line, key)


MADE = """INSERT INTO artifact (digest, size) VALUES (%(digest)s::bytea, %(size)s::bigint)
 ON CONFLICT (digest) DO UPDATE SET touched = now()"""
MOVED = """UPDATE artifact_piece SET digest = %(digest)s::bytea WHERE digest = %(key)s::bytea
 AND NOT EXISTS (SELECT FROM artifact_piece p WHERE p.digest = %(digest)s::bytea AND p.n = artifact_piece.n)"""
SWEPT = """DELETE FROM artifact WHERE digest IN (SELECT digest FROM artifact WHERE touched < now() - %(age)s::interval
 AND NOT EXISTS (SELECT FROM artifact_use WHERE artifact_use.digest = artifact.digest) LIMIT 20 FOR UPDATE SKIP LOCKED)"""
UNUSED = """DELETE FROM artifact WHERE digest = ANY(%(digests)s::bytea[])
 AND NOT EXISTS (SELECT FROM artifact_use WHERE artifact_use.digest = artifact.digest) AND touched < now() - %(age)s::interval"""


async def unused(line: Line, digests: list[bytes], age: str) -> None:
    """Remove those of the contents that no task uses or is about to use."""
    for digest in digests:
        with contextlib.suppress(ForeignKeyViolation):  # some task uses it from just now
            await line.ask(UNUSED, {"digests": [digest], "age": age}, more_secs=LONG_SECS)


async def drop(line: Line, key: bytes) -> None:
    await line.ask(
        "DELETE FROM artifact WHERE digest = %(digest)s::bytea", {"digest": key}, more_secs=LONG_SECS
    )
