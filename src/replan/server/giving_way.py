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
        self._holding: dict[int, dict[str, None]] = {}
        """The addresses that hold so many: whoever has a whole network of them comes from thousands, which nobody goes through each time."""
        self._most = 0

    def add(self, connection: Connection) -> None:
        """It waits from now on."""
        self.forget(connection)
        own = self._by.setdefault(connection.peer, {})
        own[connection] = None
        self._moved(connection.peer, len(own) - 1, len(own))

    def forget(self, connection: Connection) -> None:
        own = self._by.get(connection.peer)
        if own is None or connection not in own:
            return
        del own[connection]
        if not own:
            del self._by[connection.peer]
        self._moved(connection.peer, len(own) + 1, len(own))

    def make_room(self, most: int) -> Connection | None:
        """The connection that is closed for another one; None if no one gives way. `most`: so many may it be looked through."""
        for _ in range(most):
            if not self._by:
                return None
            one = next(iter(self._by[next(iter(self._holding[self._most]))]))
            self.forget(one)
            if not (one.asked or one.transport.is_closing()):
                one.transport.close()
                return one
        return None

    def _moved(self, peer: str, before: int, now: int) -> None:
        if before:
            among = self._holding[before]
            del among[peer]
            if not among:
                del self._holding[before]
        if now:
            self._holding.setdefault(now, {})[peer] = None
        self._most = now if now > self._most or self._most not in self._holding else self._most
