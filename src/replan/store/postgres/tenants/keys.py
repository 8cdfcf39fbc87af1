"""API keys and the limits of tenants in the PostgreSQL database. Each statement may be sent again after an answer that was lost."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from replan.core.types import JsonObject
from replan.ports import StoredKey
from replan.store.postgres.line import Params, Row, sendable
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

_ADD = f"""INSERT INTO api_key ({COLUMNS}) VALUES (%(key_id)s::text, %(tenant)s::text, %(name)s::text, %(digest)s::text,
 %(scopes)s::text, %(created)s::float8, %(expires)s::float8, %(revoked)s::float8, %(last_used)s::float8)
 ON CONFLICT DO NOTHING RETURNING 1"""
_KEY = f"SELECT {COLUMNS} FROM api_key WHERE id = %(id)s::text"
_REVOKE = """UPDATE api_key SET revoked = coalesce(revoked, %(ts)s::float8) WHERE id = %(id)s::text
 RETURNING revoked = %(ts)s::float8"""
_USED = """UPDATE api_key SET last_used = %(ts)s::float8
 WHERE id = %(id)s::text AND coalesce(last_used, 0) < %(ts)s::float8"""
_LIMITS = "SELECT limits FROM tenant WHERE tenant = %(tenant)s::text"
_LIMIT = """INSERT INTO tenant VALUES (%(tenant)s::text, %(limits)s::text)
 ON CONFLICT (tenant) DO UPDATE SET limits = excluded.limits"""


class PostgresKeys:
    """`ports.Keys`; `ask`: until there is an answer."""

    def __init__(self, ask: Callable[[str, Params], Awaitable[list[Row]]]) -> None:
        self._ask = ask

    async def add_key(self, key: StoredKey) -> None:
        params = Params(zip(StoredKey._fields, values_of(key), strict=True))
        if await self._ask(_ADD, params):
            return
        known = await self.key(key.key_id)
        if known is None or known.digest != key.digest:  # else it is ours: the first answer was lost
            raise taken(key)

    async def key(self, key_id: str) -> StoredKey | None:
        rows = await self._ask(_KEY, {"id": sendable(key_id)})
        return key_of(rows[0]) if rows else None

    async def list_keys(self, tenant: str | None = None) -> list[StoredKey]:
        where = "" if tenant is None else "WHERE tenant = %(tenant)s::text"
        params = {"tenant": sendable(tenant or "")}
        return list(
            map(key_of, await self._ask(f"SELECT {COLUMNS} FROM api_key {where} {NEWEST_FIRST}", params))
        )

    async def revoke_key(self, key_id: str, ts: float) -> bool:
        rows = await self._ask(_REVOKE, {"id": sendable(key_id), "ts": ts})
        if not rows:
            raise unknown(key_id)
        return bool(rows[0][0])

    async def key_used(self, key_id: str, ts: float) -> None:
        await self._ask(_USED, {"id": sendable(key_id), "ts": ts})

    async def tenant_limits(self, tenant: str) -> JsonObject | None:
        rows = await self._ask(_LIMITS, {"tenant": sendable(tenant)})
        return json.loads(rows[0][0]) if rows else None

    async def set_tenant_limits(self, tenant: str, limits: JsonObject | None) -> None:
        check_tenant(tenant)
        if limits is None:
            await self._ask("DELETE FROM tenant WHERE tenant = %(tenant)s::text", {"tenant": tenant})
        else:
            await self._ask(_LIMIT, {"tenant": tenant, "limits": limits_text(limits)})
