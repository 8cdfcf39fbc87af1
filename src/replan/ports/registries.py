"""Registries of services, and the addresses that are known from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Instance(NamedTuple):
    """One of those that offer a service. `scheme` and `path`: empty where the registry does not say."""

    host: str
    port: int
    scheme: str = ""
    path: str = ""
    weight: int = 1
    """How much of the load it is to bear, beside others."""
    priority: int = 0
    """Those of a higher number are asked when none of a lower one answers."""


class Look(NamedTuple):
    """What a registry says of a service."""

    instances: tuple[Instance, ...]
    mark: object
    """To be given with the next look, which then waits for news. Never None."""
    odd: tuple[str, ...] = ()
    """Why others that it lists cannot be used."""


class Registry(Protocol):
    """Knows who offers a service now."""

    name: str
    """In words, for messages: without passwords."""

    async def look(self, service: str, mark: object) -> Look:
        """All instances that are said to be well. With the `mark` of an earlier look it may wait, for a minute or so, for others than then.

        `RegistryUnavailable` where it does not say.
        """
        ...

    async def aclose(self) -> None: ...


class ServiceState(NamedTuple):
    """How the search for a service stands."""

    service: str
    registry: str
    instances: int
    """Known last."""
    problem: str
    """Why the registry says nothing new; empty: it answers."""
    looks: int
    changes: int
    failures: int


class Endpoints(Protocol):
    """Where a service can be reached, as it changes."""

    service: str

    async def begin(self) -> None:
        """Look for it from now on; the first time, wait a little for an answer."""
        ...

    def order(self) -> Sequence[str]:
        """The addresses in the order in which one call is to try them."""
        ...

    def known(self) -> Sequence[str]:
        """All of them, in an order that stays from call to call."""
        ...

    def answered(self, url: str) -> None:
        """A call has been answered there."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Tell when others than before are known."""
        ...

    def state(self) -> ServiceState: ...

    async def aclose(self) -> None:
        """Look no more; what is known stays."""
        ...
