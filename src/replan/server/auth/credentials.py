"""What a call came with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Credentials(NamedTuple):
    """What a call came with."""

    authorization: str | None = None
    """The header (HTTP) or metadata (gRPC) of that name."""
    api_key: str | None = None
    """Of `x-api-key`."""
    peer: str = ""
    """Where it came from."""
    traceparent: str | None = None
    """Whose trace it belongs to (W3C Trace Context)."""

    def __repr__(self) -> str:
        return f"Credentials(peer={self.peer!r})"

    def alone(self) -> Credentials:
        """What the caller is known by."""
        return Credentials(self.authorization, self.api_key)

    @staticmethod
    def of(sent: Iterable[tuple[str | bytes, str | bytes]], peer: str) -> Credentials:
        """Of the headers or metadata. One that is sent twice is not what either was (RFC 9110, 5.3): nobody guesses which counts."""
        found: dict[str, list[str]] = {}
        for name, value in sent:
            if (known := _KNOWN.get(name.lower())) is not None:
                found.setdefault(known, []).append(_plain(value))
        given = {name: ", ".join(values) for name, values in found.items()}
        return Credentials(given.get("authorization"), given.get("x-api-key"), peer, given.get("traceparent"))


_KNOWN: dict[str | bytes, str] = {
    form: name for name in ("authorization", "x-api-key", "traceparent") for form in (name, name.encode())
}


def _plain(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("latin-1")
