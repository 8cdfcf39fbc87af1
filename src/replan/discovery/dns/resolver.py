"""Asks name servers, by dnspython: over TCP, and over UDP where that does not go.

Over UDP some servers tell a few of many records, and not that there are more (Consul's does): each time others.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from replan.core.words import in_digits
from replan.errors import ConfigError, RegistryUnavailable

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver
    from dns.rrset import RRset

TCP_SECS, UDP_SECS = 1.0, 3.0
"""For one server."""
_MOST_SERVERS = 3
_LOOKUP_SECS = 10.0
_AT_ONCE = 8
_WORDS = {
    "SERVFAIL": "the server failed",
    "REFUSED": "it refuses",
    "FORMERR": "the question is not understood",
}
Server = tuple[str, int]
Kind = Literal["SRV", "A", "AAAA"]


class Service(NamedTuple):
    """A record SRV."""

    priority: int
    weight: int
    port: int
    target: str
    """Empty: the service is not offered here."""


class Answer(NamedTuple):
    """What a server says to one question."""

    services: tuple[Service, ...] = ()
    addresses: tuple[str, ...] = ()
    of_targets: dict[str, tuple[str, ...]] = {}
    """Addresses of targets, by their names in small letters, where the server has sent them along."""
    ttl: int | None = None
    """Seconds for which its records hold."""
    is_cut: bool = False
    """It says itself that there is more, and nobody tells that over TCP."""


def problem_of_name(name: str) -> str:
    """Why that cannot be a name; empty if it can. `ConfigError` where nobody here can look for one."""
    try:
        import dns.exception
        import dns.name
    except ImportError as error:
        raise ConfigError(
            f"looking for SRV records needs dnspython ({error.name} is missing): pip install 'replan[discovery]'"
        ) from None
    if not name.isascii():
        return f"{name[:100]!r} has letters beyond ASCII"
    try:
        dns.name.from_text(name)
    except dns.exception.DNSException as error:
        return f"{name[:100]!r} is no name: {error}"
    return "" if name.strip(".") else f"{name[:100]!r} is no name"


async def ask(name: str, kind: Kind, servers: Sequence[Server]) -> Answer:
    """The first usable answer of these servers, or of this machine's; `RegistryUnavailable` with what each has said."""
    import dns.asyncbackend
    import dns.exception
    import dns.resolver

    said: list[str] = []
    try:
        resolver = await _resolver(servers)
        backend = dns.asyncbackend.get_backend("asyncio")
        for tcp, secs in ((True, TCP_SECS), (False, UDP_SECS)):
            resolver.timeout, lifetime = secs, secs * len(resolver.nameservers)
            try:
                found = await resolver.resolve(
                    name, kind, tcp=tcp, lifetime=lifetime, search=False, raise_on_no_answer=False, backend=backend
                )  # fmt: skip
            except dns.resolver.NXDOMAIN:  # that there is none is an answer
                return Answer()
            except (dns.resolver.NoNameservers, dns.resolver.LifetimeTimeout) as error:
                errors = error.kwargs.get("errors") or ()
                if (cut := _cut_off(errors)) is not None:
                    return cut
                said += _said(errors, secs)
            else:
                return _answer(found.rrset, found.response.additional)
    except (dns.exception.DNSException, OSError, ValueError) as error:
        said.append(str(error))
    raise RegistryUnavailable(f"{name}: {'; '.join(dict.fromkeys(said)) or 'no answer'}")


async def addresses_of(host: str) -> list[str]:
    """All its addresses, as this machine finds them; `RegistryUnavailable` where it has none, or nobody knows."""
    try:
        async with asyncio.timeout(_LOOKUP_SECS):
            found = await asyncio.get_running_loop().run_in_executor(_looking(), _found, host)
    except TimeoutError:
        raise RegistryUnavailable(f"{host}: no answer within {in_digits(_LOOKUP_SECS)} s") from None
    except (OSError, UnicodeError) as error:
        raise RegistryUnavailable(f"{host}: {getattr(error, 'strerror', None) or 'it is no name'}") from None
    return sorted({str(address[4][0]) for address in found})


def _found(host: str) -> list[Any]:
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)


@lru_cache(maxsize=1)
def _looking() -> ThreadPoolExecutor:
    """Threads of its own: names that nobody answers for would hold all those on which the rest of the process counts."""
    return ThreadPoolExecutor(_AT_ONCE, "replan-names")


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def _resolver(servers: Sequence[Server]) -> Resolver:
    """That of this machine's configuration, or one that asks these."""
    from dns.asyncresolver import Resolver
    from dns.nameserver import Do53Nameserver

    if not servers:
        resolver = Resolver()
        resolver.nameservers = resolver.nameservers[:_MOST_SERVERS]
        return resolver
    resolver = Resolver(configure=False)
    resolver.nameservers = [
        Do53Nameserver(address, port)
        for host, port in servers
        for address in ([host] if is_address(host) else await addresses_of(host))
    ][:_MOST_SERVERS]
    return resolver


def _answer(records: RRset | None, along: Iterable[RRset]) -> Answer:
    services: list[Service] = []
    addresses: list[str] = []
    for record in records or ():
        if hasattr(record, "target"):
            target = str(record.target).rstrip(".")
            services.append(Service(int(record.priority), int(record.weight), int(record.port), target))
        else:
            addresses.append(str(record.address))
    of_targets: dict[str, tuple[str, ...]] = {}
    for more in along:
        if found := [str(record.address) for record in more if hasattr(record, "address")]:
            owner = str(more.name).rstrip(".").lower()
            of_targets[owner] = (*of_targets.get(owner, ()), *found)
    ttl = None if records is None else int(records.ttl)
    return Answer(tuple(services), tuple(addresses), of_targets, ttl)


def _cut_off(errors: Iterable[tuple[object, ...]]) -> Answer | None:
    """What there is of an answer that was too long for UDP, where nothing came over TCP: better than nobody."""
    from dns.exception import DNSException
    from dns.message import Truncated

    for _, _, _, why, _ in errors:
        if not isinstance(why, Truncated):
            continue
        with contextlib.suppress(DNSException, AttributeError):
            message: Any = why.message()  # type: ignore[no-untyped-call]
            if records := message.resolve_chaining().answer:
                return _answer(records, message.additional)._replace(is_cut=True)
    return None


def _said(errors: Iterable[tuple[object, ...]], secs: float) -> list[str]:
    """What each server has said, or why it said nothing. `secs`: so long it was waited for."""
    from dns.exception import Timeout

    told: list[str] = []
    for server, over_tcp, _, why, response in errors:
        if isinstance(why, Timeout):
            text = f"no answer over {'TCP' if over_tcp else 'UDP'} within {in_digits(secs)} s"
        else:
            text = str(why) or type(why).__name__
            text = text if response is None else _WORDS.get(text, f"it answers {text}")
        told.append(f"{str(server).removeprefix('Do53:').partition('@')[0]}: {text}")
    return told
