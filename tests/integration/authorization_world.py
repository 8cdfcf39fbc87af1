"""Keys of every kind that may not do something, for the proofs of who may make which call."""

from __future__ import annotations

from typing import Any

from access_world import ASKED, World

from replan.ports import HasKeys, StoredKey
from replan.run.access.callers import SCOPES, Caller, Scope
from replan.server.auth.keys import create_key, new_key

ACME, GLOBEX = "acme", "globex"
VICTIM, NOBODYS = f"{ACME}:victim", f"{ACME}:nobodys"
"""A task of acme that waits for a person's yes, and one that is not there."""
OWNER = Caller("key:own", ACME)
BAD = (None, "revoked", "expired", "unknown", "wrong secret", "a token")
OTHERS = ("other", "boss of another")
LESSER: tuple[Scope, ...] = ("read", "run", "approve")


async def keys_of(there: World) -> dict[str, str]:
    """By name, as callers have them."""
    parts = there.replan.service.parts
    assert isinstance(parts.store, HasKeys)
    store, now = parts.store.keys(), parts.clock.now()
    found: dict[str, str] = {}

    async def make(name: str, tenant: str, scopes: frozenset[Scope]) -> StoredKey:
        found[name], stored = await create_key(store, name=name, tenant=tenant, scopes=scopes, now=now)
        return stored

    everything = frozenset(LESSER)
    for scope in LESSER:
        await make(f"only {scope}", ACME, frozenset({scope}))
        await make(f"not {scope}", ACME, everything - {scope})
    await make("other", GLOBEX, everything)
    await make("boss of another", GLOBEX, SCOPES)
    await make("admin", ACME, frozenset({"admin"}))
    await make("keeper", "", frozenset({"admin"}))
    revoked = await make("revoked", ACME, SCOPES)
    await store.revoke_key(revoked.key_id, now)
    made = new_key()
    await store.add_key(
        StoredKey(made.key_id, ACME, "expired", made.digest, tuple(SCOPES), now - 10, expires=now - 1)
    )
    found |= {"expired": made.text, "unknown": new_key().text}
    found["wrong secret"] = found["only read"][:-64] + new_key().text[-64:]
    found["a token"] = "e30.e30.e30"
    return found


def without(scope: Scope) -> list[str]:
    """Names of the keys that lack it."""
    return [f"not {scope}", *(f"only {one}" for one in LESSER if one != scope)]


async def waiting_task(there: World, task_id: str) -> None:
    await there.submit(ASKED, OWNER, task_id=task_id)
    await there.waits(task_id, OWNER)


async def standing(there: World) -> Any:
    """How the victim stands."""
    return await there.cases.task(OWNER, VICTIM)
