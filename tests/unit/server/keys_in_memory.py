"""Keys and limits in memory, which count how often they are asked."""

from __future__ import annotations

from replan.core.types import JsonObject
from replan.errors import InputError
from replan.ports import StoredKey


class KeysInMemory:
    def __init__(self) -> None:
        self.by_id: dict[str, StoredKey] = {}
        self.limits: dict[str, JsonObject] = {}
        self.asked: list[str] = []
        self.used: list[tuple[str, float]] = []
        self.fails: Exception | None = None

    async def add_key(self, key: StoredKey) -> None:
        if any(one.revoked is None and one[1:3] == key[1:3] for one in self.by_id.values()):
            raise InputError(f"there is a key {key.name!r}")
        self.by_id[key.key_id] = key

    async def key(self, key_id: str) -> StoredKey | None:
        self.asked.append(key_id)
        if self.fails is not None:
            raise self.fails
        return self.by_id.get(key_id)

    async def list_keys(self, tenant: str | None = None) -> list[StoredKey]:
        return [key for key in self.by_id.values() if tenant in (None, key.tenant)]

    async def revoke_key(self, key_id: str, ts: float) -> bool:
        key = self.by_id[key_id]
        self.by_id[key_id] = key._replace(revoked=key.revoked or ts)
        return key.revoked is None

    async def key_used(self, key_id: str, ts: float) -> None:
        self.used.append((key_id, ts))

    async def tenant_limits(self, tenant: str) -> JsonObject | None:
        return self.limits.get(tenant)

    async def set_tenant_limits(self, tenant: str, limits: JsonObject | None) -> None:
        self.limits.pop(tenant, None)
        if limits is not None:
            self.limits[tenant] = limits
