"""API keys: `rpk_<id>_<secret>`. The id is looked up; of the secret only a digest is kept."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from replan.errors import InputError, StoreError
from replan.ports import Clock, Keys, StoredKey
from replan.run.access.callers import SCOPES, Caller, checked_scopes, checked_tenant
from replan.run.access.tenants.fresh import Fresh
from replan.server.auth.refused import Refused

PREFIX = "rpk_"
_KEY = re.compile(r"rpk_(?P<id>[0-9a-f]{16})_(?P<secret>[0-9a-f]{64})", re.ASCII)
_NO_DIGEST = hashlib.sha256(b"").hexdigest()
MOST_OF_A_NAME = 100
FRESH_SECS = 2.5
"""So long what the store has said of a key counts: it is revoked everywhere within that and a query's time."""
MOST_REMEMBERED = 4_096
USED_EVERY_SECS = 60.0
"""`last_used` is that coarse."""
CLOSE_SECS = 0.5
"""So long the end waits for the last of them."""


def holds_key(text: str) -> bool:
    """Whether a key stands in it."""
    return _KEY.search(text) is not None


class NewKey(NamedTuple):
    """The only time that the whole key is seen."""

    text: str
    key_id: str
    digest: str


def new_key() -> NewKey:
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    return NewKey(f"{PREFIX}{key_id}_{secret}", key_id, digest_of(secret))


def digest_of(secret: str) -> str:
    """The secret has 256 random bits: no salt and no slow hash would make it harder to guess."""
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


async def create_key(
    keys: Keys, *, name: str, tenant: str, scopes: Iterable[str], now: float, expires: float | None = None
) -> tuple[str, StoredKey]:
    """A key of that name, stored, and its text, which nobody can read again. `InputError` says what cannot be."""
    if not 0 < len(name) <= MOST_OF_A_NAME or not name.isprintable() or name != name.strip():
        raise InputError(
            f"{name!r} cannot be the name of a key: 1 to {MOST_OF_A_NAME} characters that can be read, no space at its ends"
        )
    given = checked_scopes(scopes)
    if not given:
        raise InputError(f"a key without scopes may do nothing: give it some of {', '.join(sorted(SCOPES))}")
    if expires is not None and expires <= now:
        raise InputError("the key would have expired before it is made")
    made = new_key()
    stored = StoredKey(
        made.key_id, checked_tenant(tenant), name, made.digest, tuple(sorted(given)), now, expires
    )
    await keys.add_key(stored)
    return made.text, stored


class KeyCheck:
    """Says whose a key is. What the store says counts for a few seconds, so that a request is no query."""

    def __init__(self, store: Keys, clock: Clock, *, monotonic: Callable[[], float] | None = None) -> None:
        self._store = store
        self._clock = clock
        self._stored = Fresh(store.key, FRESH_SECS, monotonic=monotonic, most=MOST_REMEMBERED)
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._notes: set[asyncio.Task[None]] = set()

    async def caller(self, text: str) -> Caller:
        """`Refused` for what is no key, or no longer a good one."""
        found = _KEY.fullmatch(text)
        if found is None:
            raise Refused("not in the form of a key")
        key_id = found["id"]
        key = await self._stored.get(key_id)
        same = hmac.compare_digest(digest_of(found["secret"]), key.digest if key is not None else _NO_DIGEST)
        if key is None:
            raise Refused("no such key", key_id=key_id)
        if not same:
            raise Refused("wrong secret", key_id=key_id)
        now = self._clock.now()
        if why := _why_not(key, now):
            raise Refused(why, key_id=key_id)
        self._note_use(key_id, now)
        return Caller(
            f"key:{key.name}", key.tenant, frozenset(one for one in SCOPES if one in key.scopes), key_id
        )

    async def any_good(self) -> bool:
        now = self._clock.now()
        return any(_why_not(key, now) is None for key in await self._store.list_keys())

    async def aclose(self) -> None:
        if self._notes:
            await asyncio.wait(self._notes, timeout=CLOSE_SECS)
        for task in self._notes:
            task.cancel()
        await asyncio.gather(*self._notes, return_exceptions=True)
        await self._stored.aclose()

    def _note_use(self, key_id: str, now: float) -> None:
        if now - self._noted.get(key_id, float("-inf")) < USED_EVERY_SECS:
            return
        self._noted[key_id] = now
        self._noted.move_to_end(key_id)
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)
        task = asyncio.create_task(self._write_use(key_id, now))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _write_use(self, key_id: str, now: float) -> None:
        try:
            await self._store.key_used(key_id, now)
        except StoreError:
            self._noted.pop(key_id, None)  # the next use is told again; nobody is refused for it


def _why_not(key: StoredKey, now: float) -> str | None:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and now >= key.expires else None
