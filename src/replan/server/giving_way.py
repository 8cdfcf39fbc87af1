"""Connections on which nothing whole is asked, in the order in which they have come to wait: which one gives way to a newcomer."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any, Protocol


def network_of(host: str) -> str:
    """The address, or of IPv6 the half of it that tells networks apart: whoever has one has all addresses in it."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or f"{int(address) >> 64:016x}")


class Connection(Protocol):
    peer: str

    @property
    def transport(self) -> Any: ...

    @property
    def asked(self) -> bool:
        """A request has come on it whole, and is being answered."""
        ...


class Waiting:
    """By address: the one that holds the most of them gives way first, so that nobody shuts out all others, and of its own the oldest."""

    def __init__(self) -> None:
        self._by: dict[str, dict[Connection, None]] = {}

    def add(self, connection: Connection) -> None:
        """It waits from now on."""
        self.forget(connection)
        self._by.setdefault(connection.peer, {})[connection] = None

    def forget(self, connection: Connection) -> None:
        own = self._by.get(connection.peer)
        if own is not None:
            own.pop(connection, None)
            if not own:
                del self._by[connection.peer]

    def make_room(self, most: int) -> Connection | None:
        """The connection that is closed for another one; None if no one gives way. `most`: so many may it be looked through."""
        for _ in range(most):
            if not self._by:
                return None
            most_of = max(self._by, key=lambda peer: len(self._by[peer]))
            one = next(iter(self._by[most_of]))
            self.forget(one)
            if not (one.asked or one.transport.is_closing()):
                one.transport.close()
                return one
        return None
