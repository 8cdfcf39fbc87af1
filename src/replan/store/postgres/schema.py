"""Bringing the database to this release's form: migrations from `sql/NNNN_*.sql`, in order, one process at a time.

Processes of older releases work on beside it, and may be started again: a migration only adds, so that what they write
stays right. One that they cannot live with begins with `-- breaks older releases`; they refuse the database from then on.
"""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import psycopg

from replan.errors import StoreUnusable
from replan.store.postgres.address import Address
from replan.store.postgres.line import Row
from replan.store.postgres.presence import SPACE

OLDEST = 14
"""The oldest major version of the server that is tested against what is used here."""
_BREAKS = "-- breaks older releases"
_FIRST = 2
"""Releases from this schema on let newer ones add to it."""


class _At(NamedTuple):
    """How far a database has come."""

    needed: int
    """Releases that do not know the schema up to this cannot use it. It stands in `version`, where they look."""
    newest: int


def migrations() -> list[tuple[int, str]]:
    """Every migration: its number and its statements."""
    folder = resources.files("replan.store.postgres").joinpath("sql")
    found = [
        (int(item.name[:4]), item.read_text("utf-8"))
        for item in folder.iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


async def prepare(
    connection: psycopg.AsyncConnection[Row], address: Address, *, steps: list[tuple[int, str]] | None = None
) -> None:
    """All of it or nothing. `StoreUnusable` if it is from a newer release or cannot hold a log."""
    steps = migrations() if steps is None else steps
    newest = steps[-1][0]
    if connection.info.server_version < OLDEST * 10_000:
        raise StoreUnusable(
            f"the database {address.shown} is PostgreSQL {connection.info.server_version // 10_000}; {OLDEST} or newer is needed"
        )
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise StoreUnusable(f"the database {address.shown} has the encoding {encoding}; make one with UTF8")
    if (await _at(connection, address, newest)).newest >= newest:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (SPACE,))
        if address.schema is not None:
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}".encode())
        await connection.execute("CREATE TABLE IF NOT EXISTS replan_schema (version integer NOT NULL)")
        await connection.execute("ALTER TABLE replan_schema ADD COLUMN IF NOT EXISTS newest integer")
        at = await _at(connection, address, newest)  # another process may have been faster
        if at.newest >= newest:
            return
        needed = max(at.needed, min(_FIRST, newest))
        for number, script in steps:
            if number > at.newest:
                await connection.execute(script.encode())
                needed = max(needed, number if script.startswith(_BREAKS) else 0)
        await connection.execute("DELETE FROM replan_schema")
        await connection.execute("INSERT INTO replan_schema VALUES (%s::int, %s::int)", (needed, newest))


async def _at(connection: psycopg.AsyncConnection[Row], address: Address, newest: int) -> _At:
    found = await (await connection.execute("SELECT to_regclass('replan_schema') IS NOT NULL")).fetchone()
    if found is None or not found[0]:
        return _At(0, 0)
    row = await (await connection.execute("SELECT to_jsonb(s) FROM replan_schema s")).fetchone()
    if row is None:
        return _At(0, 0)
    at = _At(row[0]["version"], row[0].get("newest") or row[0]["version"])
    if at.needed > newest:
        raise StoreUnusable(
            f"{address.shown} was made by a newer Replan (schema {at.needed}, this one knows {newest}); upgrade Replan"
        )
    return at
