"""Names as registries: the addresses of one with a port, or its SRV records. They are looked up again and again."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import random
import socket
from collections.abc import Callable, Sequence

from replan.core.words import in_digits
from replan.errors import RegistryUnavailable
from replan.ports import Instance, Look
from replan.registry.dns.messages import AAAA, SRV, A, Malformed, question
from replan.registry.dns.resolver import Server, ask, configured_servers

EVERY_SECS = 15.0
LEAST_SECS = 1.0
_LOOKUP_SECS = 10.0


class AddressRegistry:
    """Every address (A and AAAA) of a name, with one port. `rand` gives numbers from 0 up to 1."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        every_secs: float = EVERY_SECS,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"DNS ({host})"
        self._host = host
        self._port = port
        self._every_secs = every_secs
        self._rand = rand

    async def look(self, service: str, mark: object) -> Look:
        if mark is not None:
            await asyncio.sleep(self._every_secs * (1.0 - 0.2 * self._rand()))
        found = [Instance(address, self._port) for address in await addresses_of(self._host)]
        return Look(tuple(found), True)

    async def aclose(self) -> None:
        pass


class SrvRegistry:
    """The SRV records of the service's name, with their priorities and weights, for as long as they say that they hold."""

    def __init__(
        self,
        servers: Sequence[Server] = (),
        *,
        every_secs: float = EVERY_SECS,
        rand: Callable[[], float] = random.random,
    ) -> None:
        """`servers`: name servers to ask; none: those of this machine."""
        self.name = f"DNS at {servers[0][0]}:{servers[0][1]}" if servers else "DNS"
        self._servers = tuple(servers)
        self._every_secs = every_secs
        self._rand = rand

    async def look(self, service: str, mark: object) -> Look:
        if isinstance(mark, float):
            await asyncio.sleep(mark * (1.0 - 0.2 * self._rand()))
        answer = await ask(service, SRV, self._servers or configured_servers())
        odd: list[str] = []
        instances: list[Instance] = []
        for record in answer.services:
            target = record.target.rstrip(".")
            if not target:  # "." says that the service is not offered here
                continue
            try:
                hosts = answer.addresses.get(target.lower()) or await self._addresses_of(target)
            except RegistryUnavailable as error:
                odd.append(str(error))
                continue
            weight = max(1, record.weight)
            instances += (
                Instance(host, record.port, weight=weight, priority=record.priority) for host in hosts
            )
        wait = max(LEAST_SECS, min(self._every_secs, float(answer.ttl)))
        return Look(tuple(instances), wait, tuple(odd))

    async def aclose(self) -> None:
        pass

    async def _addresses_of(self, target: str) -> Sequence[str]:
        """Of a target that came without: as the servers say that know of it, else as this machine does."""
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(target))]
        found: list[str] = []
        for kind in (A, AAAA) if self._servers else ():
            found += (await ask(target, kind, self._servers)).addresses.get(target.lower(), ())
        return found or await addresses_of(target)


async def addresses_of(host: str) -> list[str]:
    """All its addresses; `RegistryUnavailable` where it has none, or nobody knows."""
    try:
        async with asyncio.timeout(_LOOKUP_SECS):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise RegistryUnavailable(f"{host}: no answer within {in_digits(_LOOKUP_SECS)} s") from None
    except (OSError, UnicodeError) as error:
        raise RegistryUnavailable(f"{host}: {getattr(error, 'strerror', None) or 'it is no name'}") from None
    return sorted({str(address[4][0]) for address in found})


def problem_of_name(name: str) -> str:
    """Why that cannot be a name; empty if it can."""
    try:
        question(0, name, SRV)
    except Malformed as error:
        return str(error)
    return ""
