"""The instances of a service, as a Consul agent lists them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from replan.discovery.consul.client import Consul
from replan.errors import RegistryUnavailable
from replan.ports import Instance, Look

WAIT_SECS = 55
_MARGIN_SECS = 10.0
"""An agent answers up to a sixteenth later than it is asked to."""
_FIRST_SECS = 10.0
_MOST = 2_000
"""Entries of a list that are looked at."""


class ConsulRegistry:
    """Blocking queries: an answer with an index, and the next one when something has changed since that."""

    def __init__(
        self,
        consul: Consul,
        *,
        tags: Sequence[str] = (),
        datacenter: str | None = None,
        port_key: str | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        """`tags`: only instances that have all of them. `port_key`: what says of another port, where an instance has that in
        its metadata. `rand` gives numbers from 0 up to 1."""
        self._consul = consul
        self._tags = frozenset(tags)
        self._where = {} if datacenter is None else {"dc": datacenter}
        self._port_key = port_key
        self._rand = rand
        self.name = consul.name

    async def look(self, service: str, mark: object) -> Look:
        index = mark if isinstance(mark, int) and not isinstance(mark, bool) else 0
        # Any server may answer, also one that has lost its leader. Waits of many processes do not end in the same moment.
        params = {"passing": "1", "stale": "", **self._where}
        wait = 0.0
        if index > 0:
            wait = WAIT_SECS * (1.0 - 0.2 * self._rand())
            params |= {"index": str(index), "wait": f"{wait:.0f}s"}
        secs = wait * 17 / 16 + _MARGIN_SECS if wait else _FIRST_SECS
        answer = await self._consul.ask(
            "GET", f"/v1/health/service/{quoted(service)}", secs=secs, params=params
        )
        if not isinstance(answer.body, list):
            raise RegistryUnavailable("it does not answer as Consul does: the list of instances is none")
        instances: list[Instance] = []
        odd: list[str] = []
        others = 0
        for entry in answer.body[:_MOST]:
            found = _instance(entry, self._port_key)
            if isinstance(found, str):
                odd.append(found)
            elif self._tags <= _tags_of(entry):
                instances.append(found)
            else:
                others += 1
        if others and not instances:
            odd.append(f"{others} have not all of [consul] discover_tags ({', '.join(sorted(self._tags))})")
        if len(answer.body) > _MOST:
            odd.append(f"more than {_MOST:,} are listed")
        # An index that has gone back is of an agent that has lost its state: ask it anew, as for the first time.
        return Look(tuple(instances), answer.mark if answer.mark >= index else 0, tuple(odd))

    async def aclose(self) -> None:
        await self._consul.aclose()


def quoted(name: str) -> str:
    """A name as one part of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def _instance(entry: Any, port_key: str | None) -> Instance | str:
    """One of the list; why it is none in words."""
    service, node = _table(entry, "Service"), _table(entry, "Node")
    address = service.get("Address") or node.get("Address")
    port = service.get("Port")
    if not isinstance(address, str) or not address:
        return "an entry has no address"
    if not isinstance(port, int) or isinstance(port, bool):
        return f"{address[:100]!r} has no port"
    said = {name: text for name, text in _table(service, "Meta").items() if isinstance(text, str)}
    scheme = said.get("scheme", "").lower()
    if port_key is not None and (other := said.get(port_key, "")).isdigit() and len(other) < 6:
        port = int(other)
    weight = _table(service, "Weights").get("Passing")
    return Instance(
        host=address.strip("[]"),
        port=port,
        scheme=scheme,
        path=said.get("path", ""),
        weight=weight if isinstance(weight, int) and 0 < weight <= 65_535 else 1,
    )


def _table(of: Any, name: str) -> dict[str, Any]:
    found = of.get(name) if isinstance(of, dict) else None
    return found if isinstance(found, dict) else {}


def _tags_of(entry: Any) -> frozenset[str]:
    tags = _table(entry, "Service").get("Tags")
    return frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset()
