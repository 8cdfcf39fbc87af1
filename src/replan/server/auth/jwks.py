"""The public keys of an issuer: found by discovery, kept for a while, and asked for again when a token names another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from replan.connections import Transport
from replan.core.hosts import is_loopback
from replan.core.words import in_digits
from replan.errors import Unavailable
from replan.files import read_json
from replan.server.auth.refused import Refused

log = logging.getLogger("replan.auth")

FETCH_SECS = 5.0
"""For the discovery document and the keys together."""
FLOOR_SECS = 10.0
"""Between two fetches, whatever tokens name: they are written by whoever calls."""
OUTLIVE_SECS = 3_600.0
"""Keys still count for so long after they should have been asked for again and the issuer did not answer."""
MOST_BYTES = 262_144
MOST_KEYS = 100
KINDS = {
    "RS256": ("RSA", None), "RS384": ("RSA", None), "RS512": ("RSA", None),
    "PS256": ("RSA", None), "PS384": ("RSA", None), "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}  # fmt: skip
"""By algorithm, the kind of key and its curve. None of them has a secret that both sides share."""


class PublicKey(NamedTuple):
    """One of the issuer's, for one algorithm."""

    kid: str | None
    algorithm: str
    key: jwt.PyJWK


def public_keys(document: Any, algorithms: Sequence[str]) -> tuple[PublicKey, ...]:
    """Those of a key set that sign with one of the algorithms; the others are passed over."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found: list[PublicKey] = []
    for data in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(data, dict) or not _signs(data):
            continue
        for algorithm in algorithms:
            key = _key(data, algorithm)
            if key is not None:
                kid = data.get("kid")
                found.append(PublicKey(kid if isinstance(kid, str) else None, algorithm, key))
    return tuple(found)


def _signs(data: dict[str, Any]) -> bool:
    """Not to encrypt with, and not one whose private half is told, too."""
    operations = data.get("key_ops")
    return (
        data.get("use", "sig") == "sig" and "d" not in data and (operations is None or "verify" in operations)
    )


def _key(data: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    kind, curve = KINDS[algorithm]
    if data.get("kty") != kind or data.get("crv") != curve or data.get("alg", algorithm) != algorithm:
        return None
    try:
        key = jwt.PyJWK(data, algorithm)
    except jwt.PyJWTError as error:
        log.warning("a key of the issuer cannot be used: %s", type(error).__name__)
        return None
    if isinstance(key.key, RSAPublicKey) and not (
        2048 <= key.key.key_size <= 8192 and key.key.public_numbers().e < 2**33
    ):
        log.warning("a key of the issuer cannot be used: RSA with %d bits", key.key.key_size)
        return None
    return key


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(
        self,
        issuer: str,
        algorithms: Sequence[str],
        *,
        jwks_url: str | None = None,
        keep_secs: float = 600.0,
        fetch_secs: float = FETCH_SECS,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._issuer = issuer
        self._algorithms = tuple(algorithms)
        self._jwks_url = jwks_url
        self._keep_secs = max(keep_secs, FLOOR_SECS)
        self._fetch_secs = fetch_secs
        self._monotonic = monotonic or asyncio.get_running_loop().time
        self._client = httpx2.AsyncClient(
            transport=Transport(jwks_url or issuer), timeout=fetch_secs, follow_redirects=False
        )
        self._keys: tuple[PublicKey, ...] = ()
        self._had = float("-inf")
        """When these keys were had."""
        self._tried = float("-inf")
        self._trouble = ""
        """Why the last try brought none."""
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Those that may have signed. `Refused` for a key that the issuer does not have, `Unavailable` where nobody can tell."""
        age = self._monotonic() - self._had
        if age > self._keep_secs + OUTLIVE_SECS:
            await self._fetch()
            self._must_have()
        elif age > self._keep_secs:
            self._begin()  # meanwhile the old ones count
        if found := self._matching(kid, algorithm):
            return found
        await self._fetch()
        if found := self._matching(kid, algorithm):
            return found
        self._must_have()
        raise Refused(f"the issuer has no key {_shown(kid)} for {algorithm}")

    async def check(self) -> None:
        """`Unavailable` if there are no keys to go by."""
        if self._monotonic() - self._had > self._keep_secs + OUTLIVE_SECS:
            await self._fetch()
            self._must_have()

    async def aclose(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._client.aclose()

    def _matching(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        fitting = [one for one in self._keys if one.algorithm == algorithm]
        if kid is not None:
            return [one for one in fitting if one.kid == kid][:4]
        return fitting if len(fitting) == 1 else []

    def _must_have(self) -> None:
        if self._trouble:
            raise Unavailable(
                f"the keys of the issuer {self._issuer} cannot be had: {self._trouble}",
                retry_after=FLOOR_SECS,
            )

    def _begin(self) -> asyncio.Task[None] | None:
        """The fetch that runs, or a new one; none so soon after the last."""
        if self._fetching is None and self._monotonic() - self._tried >= FLOOR_SECS:
            self._tried = self._monotonic()
            self._fetching = asyncio.create_task(self._get())
            self._fetching.add_done_callback(self._got)
        return self._fetching

    async def _fetch(self) -> None:
        if (task := self._begin()) is not None:
            await asyncio.shield(task)

    def _got(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the keys of the issuer cannot be read", exc_info=error)

    async def _get(self) -> None:
        try:
            async with asyncio.timeout(self._fetch_secs):
                url = self._jwks_url or await self._discovered()
                keys = public_keys(await self._document(url), self._algorithms)
            if not keys:
                raise _NotUsable("it has no key for any of the algorithms")
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, _NotUsable) as error:
            said = str(error) if isinstance(error, _NotUsable) else type(error).__name__
            self._trouble = (
                said
                if not isinstance(error, TimeoutError)
                else f"no answer within {in_digits(self._fetch_secs)} s"
            )
            log.warning("the keys of the issuer %s cannot be had: %s", self._issuer, self._trouble)
            return
        self._keys, self._had, self._trouble = keys, self._monotonic(), ""

    async def _discovered(self) -> str:
        found = await self._document(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(found, dict) or found.get("issuer") != self._issuer:
            raise _NotUsable("its discovery document names another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not safe_url(url):
            raise _NotUsable("its discovery document has no jwks_uri with https")
        return url

    async def _document(self, url: str) -> Any:
        async with self._client.stream("GET", url, headers={"accept": "application/json"}) as response:
            if response.status_code != 200:
                raise _NotUsable(f"{url} answers {response.status_code}")
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MOST_BYTES:
                    raise _NotUsable(f"{url} answers more than {MOST_BYTES} bytes")
        try:
            return read_json(data.decode())
        except ValueError:
            raise _NotUsable(f"{url} answers no JSON") from None


class _NotUsable(Exception):
    """What the issuer answers cannot be used."""


def safe_url(url: str) -> bool:
    """Whether nobody in between could put keys of their own there."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return bool(parts.host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.host))
    )


def _shown(kid: str | None) -> str:
    return "without an id" if kid is None else repr(kid[:80])
