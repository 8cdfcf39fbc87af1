"""The page's cookie: a key or token that a person has given once, and that no script of the page can read.

The cookie *is* the key: it is checked at each call, and one that is revoked ends it. What changes something needs a header of the
page's own besides, which no page of others can send without being asked first (a "simple" request of a form cannot have it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from replan.server.auth.credentials import Credentials
from replan.server.auth.keys import PREFIX

COOKIE = "replan_key"
OWN_HEADER = "x-replan-page"
MOST_BYTES = 4_000
"""Of a key or token in a cookie: browsers keep no larger ones."""
_VALUE = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)
_READS = frozenset({"GET", "HEAD"})


def given_by_page(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key or token of the page's cookie; None if there is none, or more than one."""
    found = [
        value.strip()
        for name, text in headers
        if name == b"cookie"
        for part in text.decode("latin-1").split(";")
        if (pair := part.partition("="))[0].strip() == COOKIE and (value := pair[2])
    ]
    return found[0] if len(found) == 1 and fits(found[0]) else None


def fits(text: str) -> bool:
    """Whether a cookie can hold it."""
    return len(text) <= MOST_BYTES and _VALUE.fullmatch(text) is not None


def as_credentials(text: str, peer: str = "", traceparent: str | None = None) -> Credentials:
    """What a call comes with that has this key or token."""
    if text.startswith(PREFIX):
        return Credentials(api_key=text, peer=peer, traceparent=traceparent)
    return Credentials(authorization=f"Bearer {text}", peer=peer, traceparent=traceparent)


def may_by_cookie(method: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a call that has nothing but the cookie is one of the page itself."""
    return method in _READS or any(name == OWN_HEADER.encode() for name, _ in headers)


def kept(text: str, *, secure: bool) -> str:
    """`Set-Cookie`: until the browser is closed, for no script, and sent by no page of others."""
    return f"{COOKIE}={text}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def dropped(*, secure: bool) -> str:
    """`Set-Cookie` that takes it away."""
    return f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{'; Secure' if secure else ''}"
