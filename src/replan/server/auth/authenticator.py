"""Who calls: by a key or a token, in either of two headers."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable

from replan.config.sections import Settings
from replan.errors import ConfigError
from replan.ports import Clock, HasKeys, Store
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.auth.failures import address_of
from replan.server.auth.keys import PREFIX, KeyCheck
from replan.server.auth.oidc import TokenCheck
from replan.server.auth.refused import Refused
from replan.server.seldom import Seldom

log = logging.getLogger("replan.auth")

MOST_CHARS = 20_000
_TOLD_BY_THEMSELVES = 20
"""Lines a minute about calls that are not let in, which anybody can make; the rest is one line."""
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.ASCII | re.IGNORECASE)


class KnownCallers:
    """Of a service that asks who calls."""

    def __init__(self, keys: KeyCheck | None, tokens: TokenCheck | None) -> None:
        self._keys = keys
        self._tokens = tokens
        self._tell = Seldom(log, logging.INFO, "not signed in", whole=_TOLD_BY_THEMSELVES)

    async def __call__(self, credentials: Credentials) -> Caller:
        """`NotSignedIn`, the same for all that is not good; the log has why."""
        try:
            return await self._caller(credentials)
        except Refused as refused:
            extra = {"key_id": refused.key_id, "peer": credentials.peer}
            self._tell(address_of(credentials.peer), refused.why, extra)
            raise

    async def begin(self) -> None:
        """Tell where nobody can get in."""
        if self._keys is not None and self._tokens is None and not await self._keys.any_good():
            log.warning("nobody can call yet: there is no key that is good; `replan keys create` makes one")

    def checks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What it stands on beside the store."""
        return {} if self._tokens is None else {"issuer": self._tokens.keys.check}

    async def aclose(self) -> None:
        for check in (self._keys, self._tokens):
            if check is not None:
                await check.aclose()

    async def _caller(self, credentials: Credentials) -> Caller:
        given = _given(credentials)
        if given.startswith(PREFIX):
            if self._keys is None:
                raise Refused("a key, and keys are not taken here")
            return await self._keys.caller(given)
        if self._tokens is None:
            raise Refused("no key, and tokens are not taken here")
        return await self._tokens.caller(given)


def _given(credentials: Credentials) -> str:
    """The one key or token that it came with."""
    authorization, api_key = credentials.authorization, credentials.api_key
    if max(len(authorization or ""), len(api_key or "")) > MOST_CHARS:
        raise Refused("a header that is too long")
    bearer = _BEARER.fullmatch(authorization) if authorization is not None else None
    if api_key is not None:
        if bearer is not None:
            raise Refused("both a bearer and an API key: which of them counts is not guessed")
        if not api_key.startswith(PREFIX):
            raise Refused("X-API-Key has no key in it")
        return api_key
    if authorization is None:
        raise Refused("nothing to know the caller by")
    if bearer is None:
        raise Refused("Authorization is not `Bearer …`")
    return str(bearer[1])


def known_callers(settings: Settings, store: Store, clock: Clock) -> KnownCallers | None:
    """As `[server] auth` says; None: nobody is asked. `ConfigError` for settings that cannot be."""
    ways = settings.server.auth.split("+")
    keys = None
    if "keys" in ways:
        if not isinstance(store, HasKeys):
            raise ConfigError(f'[server] auth = "keys": {store.shown} cannot keep keys')
        keys = KeyCheck(store.keys(), clock)
    tokens = TokenCheck(settings.oidc, clock) if "oidc" in ways else None
    return KnownCallers(keys, tokens) if keys is not None or tokens is not None else None
