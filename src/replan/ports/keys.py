"""Who may call a service."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from replan.core.types import JsonObject


class StoredKey(NamedTuple):
    """An API key, without its secret."""

    key_id: str
    tenant: str
    name: str
    digest: str
    """SHA-256 of the secret, as hex."""
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    """Not to the second."""


class Keys(Protocol):
    """API keys, and what tenants may use."""

    async def add_key(self, key: StoredKey) -> None:
        """`InputError`: the tenant has another key of that name, which is not revoked."""
        ...

    async def key(self, key_id: str) -> StoredKey | None: ...
    async def list_keys(self, tenant: str | None = None) -> list[StoredKey]:
        """Of one tenant, or all; the revoked ones too, newest first."""
        ...

    async def revoke_key(self, key_id: str, ts: float) -> bool:
        """False: it was revoked before. `InputError`: there is none."""
        ...

    async def key_used(self, key_id: str, ts: float) -> None: ...
    async def tenant_limits(self, tenant: str) -> JsonObject | None:
        """None: it has none of its own."""
        ...

    async def set_tenant_limits(self, tenant: str, limits: JsonObject | None) -> None: ...


@runtime_checkable
class HasKeys(Protocol):
    """A store that keeps keys."""

    def keys(self) -> Keys: ...
