"""What the claims of a token come to: whether it counts here and now, and who it is of."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

from replan.config.sections import Oidc
from replan.errors import InputError
from replan.run.access.callers import SCOPES, Caller, Scope, checked_tenant
from replan.server.auth.refused import Refused

MOST_OF_A_NAME = 200
_OTHER_TOKENS = {
    "cnf": "it counts only together with the proof of a key, which is not checked here",
    "events": "it tells of events, such as a logout: it is none to call with",
    "htm": "it is the proof of a key for one request",
    "htu": "it is the proof of a key for one request",
}
"""What tokens of other kinds have among their claims, whatever their header says they are."""


def caller_of(claims: Mapping[str, Any], oidc: Oidc, now: float) -> Caller:
    """Whoever a token is of, its signature being good; `Refused` if it does not count."""
    if claims.get("iss") != oidc.issuer:
        raise Refused("of another issuer")
    _for_us(claims.get("aud"), oidc.audience)
    _in_time(claims, now, oidc.clock_skew_secs)
    for name, what in _OTHER_TOKENS.items():
        if name in claims:
            raise Refused(f"{what} ({name})")
    return Caller(_who(claims, oidc), _tenant(claims, oidc), _scopes(claims, oidc))


def _for_us(audience: Any, wanted: tuple[str, ...]) -> None:
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not any(one in named for one in wanted):
        raise Refused("for another audience")


def _in_time(claims: Mapping[str, Any], now: float, skew: float) -> None:
    expires = _time(claims, "exp")
    if expires is None:
        raise Refused("it never expires (no exp)")
    if now >= expires + skew:
        raise Refused("expired")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and now < begins - skew:
            raise Refused(f"not good yet ({name})")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refused(f"{name} is no time")
    return float(value)


def _who(claims: Mapping[str, Any], oidc: Oidc) -> str:
    who = _claim(claims, oidc.who_claim)
    if not isinstance(who, str) or not 0 < len(who) <= MOST_OF_A_NAME or not who.isprintable():
        raise Refused(f"{oidc.who_claim} names nobody")
    if unicodedata.normalize("NFKC", who).strip().casefold().startswith("key:"):
        raise Refused(f"{oidc.who_claim} looks like the name of a key in the log")
    return who


def _tenant(claims: Mapping[str, Any], oidc: Oidc) -> str:
    if oidc.tenant_claim is None:
        return oidc.tenant or ""
    said = _claim(claims, oidc.tenant_claim)
    if not isinstance(said, str) or not said:
        raise Refused(f"{oidc.tenant_claim} names no tenant")
    if oidc.tenants:
        said = oidc.tenants.get(said, "")
    try:
        tenant = checked_tenant(said)
    except InputError:
        tenant = ""
    if not tenant:  # never that of the command, from which all are seen
        raise Refused(f"{oidc.tenant_claim} names no tenant of this service")
    return tenant


def _scopes(claims: Mapping[str, Any], oidc: Oidc) -> frozenset[Scope]:
    said = _claim(claims, oidc.scope_claim)
    if said is None:
        words = list(oidc.default_scopes)
    else:
        listed = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        words = [word for one in listed if isinstance(one, str) for word in _meant(one, oidc)]
    return frozenset(scope for scope in SCOPES if scope in words)


def _meant(said: str, oidc: Oidc) -> list[str]:
    return oidc.scopes.get(said, "").split() if oidc.scopes else [said]


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """By its name, or by the names on the way to it: some have dots in their own."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found
