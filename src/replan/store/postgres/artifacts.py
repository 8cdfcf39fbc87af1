"""Large outputs: each content once, in pieces, written before the append that names it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from replan.store.postgres.line import Line

PIECE = 1 << 20


async def put(line: Line, data: bytes) -> bytes:
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
        )
    return digest


async def get(line: Line, digest: bytes) -> bytes:
    """The whole content."""
    pieces: list[bytes] = []
    while True:
        rows: Sequence[tuple[bytes]] = await line.ask(
            "SELECT data FROM artifact_piece WHERE digest = %(digest)s::bytea AND n >= %(n)s::int ORDER BY n LIMIT 8",
            {"digest": digest, "n": len(pieces)},
        )
        pieces += [bytes(row[0]) for row in rows]
        if len(rows) < 8:
            return b"".join(pieces)
