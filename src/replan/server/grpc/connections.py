"""Connections over gRPC, of which those give way on which nobody who is known asks anything.

gRPC keeps its connections to itself, and refuses newcomers where there are as many as may be: whoever holds them and asks nothing
would shut out all others. So it may have more than that, and those too many are found among the open files of the process and closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import sys
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote

from replan.server.giving_way import Waiting, network_of

SPARE = 64
"""Beyond the limit, where there is room for no more: for those that ask for its health."""
_AT_ONCE = 4_096
"""So many may come between two looks."""
_FILES_LEFT = 512
"""For the database, tools and models."""
_LOOK_SECS = 0.1
_LOOK_AGAIN_SECS = 0.02
"""While there are too many."""
_FILES = "/dev/fd"
_CAN_BE_FOUND = os.path.isdir(_FILES)


class Peer(NamedTuple):
    """One end of a connection."""

    host: str
    port: int


def peer_of(said: str) -> Peer | None:
    """As gRPC says it: `ipv4:127.0.0.1:50000`, `ipv6:%5B::1%5D:50000`."""
    if not said.startswith(("ipv4:", "ipv6:")):
        return None
    host, _, port = unquote(said[5:]).rpartition(":")
    return Peer(_plain(host.strip("[]")), int(port)) if port.isdecimal() else None


def _plain(host: str) -> str:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def most_accepted(most: int, files: int | None) -> int:
    """How many gRPC takes where so many may stay, with so many open files beside as many connections over HTTP."""
    if not _CAN_BE_FOUND:
        return most + SPARE
    room = sys.maxsize if files is None else files - most - _FILES_LEFT
    return max(most + SPARE, min(2 * most + _AT_ONCE, room))


class _Held:
    """A connection that gRPC has open."""

    def __init__(self, number: int, inode: int, peer: Peer, calls: Counter[Peer]) -> None:
        self._number = number
        self.inode = inode
        self.whose = peer
        self.peer = network_of(peer.host)
        self._calls = calls
        self._closing = False

    @property
    def asked(self) -> bool:
        return self._calls[self.whose] > 0

    @property
    def transport(self) -> _Held:
        """It is its own."""
        return self

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """As if the other side had. The file is gRPC's, and closed by it: its number may stand for another one by now."""
        if (again := _again(self._number, self.inode)) is not None:
            self._closing = True
            with contextlib.suppress(OSError), socket.socket(fileno=again) as own:
                own.shutdown(socket.SHUT_RDWR)


class Connections:
    """Of one port."""

    def __init__(self, most: int, gave_way: Callable[[str], None]) -> None:
        """`gave_way`: told the address of each that had to."""
        self._most = most
        self._gave_way = gave_way
        self._calls: Counter[Peer] = Counter()
        self._held: dict[int, _Held] = {}
        self._by_peer: dict[Peer, _Held] = {}
        self._others: dict[int, int] = {}
        """Open files that are no connections of that port: the number, and which file it stood for."""
        self._waiting = Waiting()

    def begun(self, said: str) -> Callable[[], None]:
        """Somebody who is known has a call there; what is given says that it has ended."""
        if (peer := peer_of(said)) is None:
            return _nothing
        self._calls[peer] += 1

        def ended() -> None:
            self._calls[peer] -= 1
            if not self._calls[peer]:
                del self._calls[peer]
                if (held := self._by_peer.get(peer)) is not None:
                    self._waiting.add(held)

        return ended

    async def keep(self, port: int) -> None:
        """Within the limit, for ever."""
        while _CAN_BE_FOUND:
            try:
                too_many = self.look(port)
            except OSError:  # no file is left to look with: some are closed in a moment
                too_many = True
            await asyncio.sleep(_LOOK_AGAIN_SECS if too_many else _LOOK_SECS)

    def look(self, port: int) -> bool:
        """Close those that are too many, and say whether there were any."""
        numbers = [int(name) for name in os.listdir(_FILES)]
        if len(numbers) <= self._most:  # all files together
            return False
        self._find(numbers, port)
        over = sum(not one.is_closing() for one in self._held.values()) - self._most
        for _ in range(over):
            closed = self._waiting.make_room(len(self._held))
            if closed is None:
                break
            assert isinstance(closed, _Held)
            if not closed.is_closing():  # it could not be now
                self._waiting.add(closed)
                break
            self._gave_way(closed.whose.host)
        return over > 0

    def _find(self, numbers: list[int], port: int) -> None:
        held: dict[int, _Held] = {}
        others: dict[int, int] = {}
        for number in numbers:
            try:
                found = os.fstat(number)
            except OSError:  # closed meanwhile
                continue
            known = self._held.get(number)
            if known is not None and known.inode == found.st_ino:
                held[number] = known
            elif self._others.get(number) == found.st_ino or not stat.S_ISSOCK(found.st_mode):
                others[number] = found.st_ino
            else:
                again = _again(number, found.st_ino)
                if again is None:  # it is looked at another time
                    continue
                if peer := _connected(again, port):
                    held[number] = _Held(number, found.st_ino, peer, self._calls)
                else:
                    others[number] = found.st_ino
        for number, one in self._held.items():
            if held.get(number) is not one:
                self._waiting.forget(one)
        for number, one in held.items():
            if self._held.get(number) is not one:
                self._waiting.add(one)
        self._held, self._others = held, others
        self._by_peer = {one.whose: one for one in held.values()}


def _again(number: int, inode: int) -> int | None:
    """The same open file under a number of our own, so that it stays the same; None if it is another one by now, or none may be opened."""
    with contextlib.suppress(OSError):
        again = os.dup(number)
        if os.fstat(again).st_ino == inode:
            return again
        os.close(again)
    return None


def _connected(number: int, port: int) -> Peer | None:
    """Whose connection to that port it is; the number is used up."""
    with contextlib.suppress(OSError), socket.socket(fileno=number) as own:
        if own.family in (socket.AF_INET, socket.AF_INET6) and own.getsockname()[1] == port:
            host, there = own.getpeername()[:2]
            return Peer(_plain(host), there)
    return None


def _nothing() -> None:
    """Of whoever comes over no network."""
