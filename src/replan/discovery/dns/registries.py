"""Names as registries: the addresses of one with a port, or its SRV records. They are looked up again and again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from replan.core.words import in_digits
from replan.discovery.dns.resolver import Server, addresses_of, ask, is_address
from replan.errors import RegistryUnavailable
from replan.ports import Instance, Look

EVERY_SECS = 15.0
LEAST_SECS = 1.0
TARGETS_SECS = 20.0
_AT_ONCE = 64
_READ_A_SEC = 200
"""Records, on the average: a long list that may change at any time is not read all the time."""


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
        targets_secs: float = TARGETS_SECS,
        rand: Callable[[], float] = random.random,
    ) -> None:
        """`servers`: name servers to ask; none: those of this machine. `targets_secs`: for the addresses of all targets together."""
        self.name = f"DNS at {servers[0][0]}:{servers[0][1]}" if servers else "DNS"
        self._servers = tuple(servers)
        self._every_secs = every_secs
        self._targets_secs = targets_secs
        self._rand = rand

    async def look(self, service: str, mark: object) -> Look:
        if isinstance(mark, float):
            await asyncio.sleep(mark * (1.0 - 0.2 * self._rand()))
        answer = await ask(service, "SRV", self._servers)
        targets = {one.target.lower(): one.target for one in answer.services if one.target}
        found = dict(answer.of_targets)
        odd = await self._find({name: target for name, target in targets.items() if name not in found}, found)
        instances = [
            Instance(host, one.port, weight=max(1, one.weight), priority=one.priority)
            for one in answer.services
            for host in found.get(one.target.lower(), ())
        ]
        if answer.is_cut:
            odd.append(f"{service}: the answer is cut off, and nothing comes over TCP: some may be missing")
        holds = self._every_secs if answer.ttl is None else float(answer.ttl)
        least = max(LEAST_SECS, len(answer.services) / _READ_A_SEC)
        return Look(tuple(instances), max(least, min(self._every_secs, holds)), tuple(odd))

    async def aclose(self) -> None:
        pass

    async def _find(self, targets: Mapping[str, str], found: dict[str, tuple[str, ...]]) -> list[str]:
        """The addresses of targets that came without; and of which there are none. Some that nobody tells of hold up no others."""
        odd: list[str] = []
        places = asyncio.Semaphore(_AT_ONCE)

        async def look(name: str, target: str) -> None:
            async with places:
                try:
                    found[name] = tuple(await self._addresses_of(target))
                except RegistryUnavailable as error:
                    odd.append(str(error))

        looks = {
            asyncio.get_running_loop().create_task(look(name, target)): target
            for name, target in targets.items()
        }
        try:
            if looks:
                await asyncio.wait(looks, timeout=self._targets_secs)
            late = [target for task, target in looks.items() if not task.done()]
        finally:
            await _ended(looks)
        return odd + [f"{target}: no answer within {in_digits(self._targets_secs)} s" for target in late]

    async def _addresses_of(self, target: str) -> Sequence[str]:
        """As the servers say that know of it, else as this machine does."""
        if is_address(target):
            return [target]
        found: list[str] = []
        if self._servers:
            found += (await ask(target, "A", self._servers)).addresses
            found += (await ask(target, "AAAA", self._servers)).addresses
        return found or await addresses_of(target)


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Call them off, and see them end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
