"""Bearer tokens of an OpenID provider: signed JWTs, checked by the issuer's public keys."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt

from replan.config.sections import Oidc
from replan.errors import ConfigError, InputError
from replan.files import read_json
from replan.ports import Clock
from replan.run.access.callers import Caller, checked_scopes, checked_tenant
from replan.server.auth.claims import caller_of
from replan.server.auth.jwks import FETCH_SECS, KINDS, IssuerKeys, PublicKey, safe_url
from replan.server.auth.refused import Refused

MOST_CHARS = 16_384
MOST_OF_HEADER = 2_048
MOST_REMEMBERED = 1_024
_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_TYPES = {"jwt", "at+jwt", "application/jwt", "application/at+jwt"}
"""Others are no tokens to call with: logout tokens, proofs, events."""
_NOT_UNDERSTOOD = ("crit", "b64", "zip", "enc", "cty")
"""Each changes what the rest means. What names keys of its own (jku, jwk, x5u, x5c) is not looked at."""


class _Verified(NamedTuple):
    key: PublicKey
    claims: dict[str, Any]


class TokenCheck:
    """Says whose a token is. A signature that was good is, as long as its key is one of the issuer's; times are looked at each time."""

    def __init__(
        self,
        oidc: Oidc,
        clock: Clock,
        *,
        fetch_secs: float = FETCH_SECS,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        check_oidc(oidc)
        self._oidc = oidc
        self._clock = clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        """By the digest of the token. To check a signature takes as long as to store a task."""
        self._jws = jwt.PyJWS(algorithms=oidc.algorithms)
        self.keys = IssuerKeys(
            oidc.issuer or "", oidc.algorithms, jwks_url=oidc.jwks_url, keep_secs=oidc.keys_for_secs,
            fetch_secs=fetch_secs, monotonic=monotonic,
        )  # fmt: skip

    async def caller(self, token: str) -> Caller:
        """`Refused` for what is no token, or none that counts here and now."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._verified.get(digest)
        if known is not None and known.key in await self.keys.find(known.key.kid, known.key.algorithm):
            self._verified.move_to_end(digest)
            return caller_of(known.claims, self._oidc, self._clock.now())
        verified = await self._verify(token)
        caller = caller_of(verified.claims, self._oidc, self._clock.now())
        self._verified[digest] = verified
        if len(self._verified) > MOST_REMEMBERED:
            self._verified.popitem(last=False)
        return caller

    async def _verify(self, token: str) -> _Verified:
        kid, algorithm = self._header(token)
        for known in await self.keys.find(kid, algorithm):
            try:
                payload = self._jws.decode(token, known.key, algorithms=[algorithm])
            except jwt.InvalidSignatureError:
                continue
            except jwt.PyJWTError as error:
                raise Refused(f"no good token: {type(error).__name__}") from None
            return _Verified(known, _object(payload, "payload"))
        raise Refused("wrong signature")

    async def aclose(self) -> None:
        await self.keys.aclose()

    def _header(self, token: str) -> tuple[str | None, str]:
        """The key's id and the algorithm; nothing else of the header counts."""
        parts = _TOKEN.fullmatch(token) if len(token) <= MOST_CHARS else None
        if parts is None:
            raise Refused("not in the form of a token")
        if len(parts[1]) > MOST_OF_HEADER:
            raise Refused("its header is too long")
        try:
            raw = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        except ValueError:
            raise Refused("its header is not base64url") from None
        header = _object(raw, "header")
        if odd := next((name for name in _NOT_UNDERSTOOD if name in header), None):
            raise Refused(f"its header has {odd!r}, which is not understood here")
        kind, kid, algorithm = header.get("typ"), header.get("kid"), header.get("alg")
        if kind is not None and (not isinstance(kind, str) or kind.lower() not in _TYPES):
            raise Refused("not of a type to call with")
        if not isinstance(algorithm, str) or algorithm not in self._oidc.algorithms:
            raise Refused(f"signed with {str(algorithm)[:20]!r}, which is not taken")
        if kid is not None and (not isinstance(kid, str) or len(kid) > 1_000):
            raise Refused("the id of its key is no text")
        return kid, algorithm


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = read_json(raw.decode())
    except ValueError:
        raise Refused(f"its {what} is no JSON") from None
    if not isinstance(value, dict):
        raise Refused(f"its {what} is no object")
    return value


def check_oidc(oidc: Oidc) -> None:
    """`ConfigError` says what of [oidc] cannot be, and what would be right."""
    if not oidc.issuer:
        raise ConfigError(
            '[server] auth takes tokens: set [oidc] issuer = "https://…", as tokens have it in `iss`'
        )
    for name, url in (("issuer", oidc.issuer), ("jwks_url", oidc.jwks_url)):
        if url is not None and not safe_url(url):
            raise ConfigError(
                f'[oidc] {name} = "{url}" has to be an https URL: who stands in between could sign tokens'
            )
    if not oidc.audience:
        raise ConfigError(
            "[oidc] audience is not set: tokens that the issuer made for other services would count here; name what `aud` has for this one"
        )
    if wrong := [one for one in oidc.algorithms if one not in KINDS]:
        raise ConfigError(
            f"[oidc] algorithms: {', '.join(wrong)} cannot be used; there are {', '.join(KINDS)}"
        )
    if not oidc.algorithms:
        raise ConfigError(f"[oidc] algorithms is empty; there are {', '.join(KINDS)}")
    try:
        checked_scopes(word for said in oidc.scopes.values() for word in said.split())
        checked_scopes(oidc.default_scopes)
        for tenant in (oidc.tenant or "", *oidc.tenants.values()):
            checked_tenant(tenant)
    except InputError as error:
        raise ConfigError(f"[oidc] {error}") from None
