"""API keys and the limits of tenants in the SQLite file."""

from __future__ import annotations

import json
import sqlite3

from replan.core.data.strict_json import storable
from replan.core.types import JsonObject
from replan.ports import StoredKey
from replan.store.reader import Reader
from replan.store.tenants.rows import (
    COLUMNS,
    NEWEST_FIRST,
    check_tenant,
    key_of,
    limits_text,
    taken,
    unknown,
    values_of,
)
from replan.store.writer import Writer


class SqliteKeys:
    """`ports.Keys`. What is granted or taken away is on the disk before it is said."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def add_key(self, key: StoredKey) -> None:
        values = values_of(key)

        def work(db: sqlite3.Connection) -> None:
            named = "SELECT 1 FROM api_key WHERE tenant = ? AND name = ? AND revoked IS NULL"
            if db.execute(named, (key.tenant, key.name)).fetchone():
                raise taken(key)
            db.execute(f"INSERT INTO api_key ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

        await self._writer.submit(work, on_disk=True)

    async def key(self, key_id: str) -> StoredKey | None:
        def work(db: sqlite3.Connection) -> StoredKey | None:
            row = db.execute(f"SELECT {COLUMNS} FROM api_key WHERE id = ?", (storable(key_id),)).fetchone()
            return None if row is None else key_of(row)

        return await self._reader.run(work)

    async def list_keys(self, tenant: str | None = None) -> list[StoredKey]:
        wanted = None if tenant is None else storable(tenant)

        def work(db: sqlite3.Connection) -> list[StoredKey]:
            where = "coalesce(?, tenant) = tenant"
            rows = db.execute(f"SELECT {COLUMNS} FROM api_key WHERE {where} {NEWEST_FIRST}", (wanted,))
            return list(map(key_of, rows))

        return await self._reader.run(work)

    async def revoke_key(self, key_id: str, ts: float) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            if not db.execute("SELECT 1 FROM api_key WHERE id = ?", (storable(key_id),)).fetchone():
                raise unknown(key_id)
            done = db.execute("UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", (ts, key_id))
            return done.rowcount > 0

        revoked: bool = await self._writer.submit(work, on_disk=True)
        return revoked

    async def key_used(self, key_id: str, ts: float) -> None:
        later = "UPDATE api_key SET last_used = ? WHERE id = ? AND coalesce(last_used, 0) < ?"
        await self._writer.submit(
            lambda db: db.execute(later, (ts, key_id, ts)) and None, large=True, durable=False, patient=False
        )

    async def tenant_limits(self, tenant: str) -> JsonObject | None:
        def work(db: sqlite3.Connection) -> JsonObject | None:
            row = db.execute("SELECT limits FROM tenant WHERE tenant = ?", (storable(tenant),)).fetchone()
            return None if row is None else json.loads(row[0])

        return await self._reader.run(work)

    async def set_tenant_limits(self, tenant: str, limits: JsonObject | None) -> None:
        check_tenant(tenant)
        text = None if limits is None else limits_text(limits)

        def work(db: sqlite3.Connection) -> None:
            if text is None:
                db.execute("DELETE FROM tenant WHERE tenant = ?", (tenant,))
            else:
                db.execute("INSERT OR REPLACE INTO tenant VALUES (?, ?)", (tenant, text))

        await self._writer.submit(work, on_disk=True)
