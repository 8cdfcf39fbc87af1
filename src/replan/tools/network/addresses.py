"""Which network addresses tools may reach, so that a model cannot be talked into reading the inside of a network.

The client of `guarded_client.guarded_client` checks every connection where it is made: the very address that was checked is connected
to, so that neither a redirect nor a name that changes its address (DNS rebinding) gets around the rules.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from replan.errors import InputError, ToolCallError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses, best first; `OSError` where there are none."""


class Refusal(Protocol):
    """Makes the error for what the rules forbid: where, and why. `sent`: a redirect led there."""

    def __call__(self, where: str, why: str, *, sent: bool = False) -> Exception: ...


_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in (
        "169.254.169.254",  # AWS, Azure, Google, OpenStack and most others
        "169.254.170.2",  # AWS containers
        "fd00:ec2::254",  # AWS over IPv6
        "fd20:ce::254",  # Google over IPv6
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure's wire server: public by its number
    )
)
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_NEVER = (
    ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
    ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
    ("an unspecified address", ("0.0.0.0/8", "::/128")),
    ("a relay of IPv6 over IPv4", ("192.88.99.0/24",)),
    ("an address of NAT64 for local use", ("64:ff9b:1::/48",)),
)
_PRIVATE = (
    ("a loopback address", ("127.0.0.0/8", "::1/128")),
    ("a private address", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")),
    ("a private address (unique local)", ("fc00::/7",)),
    ("a private address (site local)", ("fec0::/10",)),
    ("an address of a carrier's own network", ("100.64.0.0/10",)),
)
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def _networks(table: tuple[tuple[str, tuple[str, ...]], ...]) -> list[tuple[str, Network]]:
    return [(what, ipaddress.ip_network(text)) for what, texts in table for text in texts]


_NEVER_IN, _PRIVATE_IN = _networks(_NEVER), _networks(_PRIVATE)


class _Allowed(NamedTuple):
    hosts: frozenset[tuple[str, int | None]]
    networks: tuple[tuple[Network, int | None], ...]


@dataclass(frozen=True)
class AddressRules:
    """What may be connected to. Nothing said: public addresses (IANA's special-purpose registries) and no others.

    `allow_private`: also loopback, private (RFC 1918), unique local (RFC 4193) and carriers' (RFC 6598) addresses.
    `allow_hosts`: exceptions, each a host name, an address or a network (`10.1.0.0/16`), all but networks with a port
    if wanted (`localhost:8080`, `[::1]:8080`). A name that is allowed may have any address but one that is refused
    even with `allow_private`: link-local ones, with the metadata services of clouds, multicast, unspecified and
    reserved ones. Those are reached only if the address itself, or its network, is in `allow_hosts`.
    Raises `InputError` for an entry that is none of these.
    """

    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    _allowed: _Allowed = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.allow_hosts, str):
            raise InputError(f"allow_hosts is a list of hosts, not the text {self.allow_hosts!r}")
        hosts: set[tuple[str, int | None]] = set()
        networks: list[tuple[Network, int | None]] = []
        for entry in self.allow_hosts:
            host, port = _host_and_port(entry)
            network = _network(host)
            if network is not None:
                networks.append((network, port))
            else:
                hosts.add((host.lower().rstrip("."), port))
        object.__setattr__(self, "_allowed", _Allowed(frozenset(hosts), tuple(networks)))

    def name_allowed(self, host: str, port: int) -> bool:
        """True if `allow_hosts` has that very name."""
        name = host.lower().rstrip(".")
        return bool({(name, None), (name, port)} & self._allowed.hosts)

    def refusal_of_name(self, host: str, port: int) -> str | None:
        """Why a host may not even be looked up; None if it may."""
        name = host.lower().rstrip(".")
        if name in _METADATA_NAMES and not self.name_allowed(host, port):
            return "is the name of a cloud's metadata service"
        if _looks_numeric(name) and _address(name) is None:
            return "is an unusual way to write an address; write it as four decimal numbers"
        if "%" in name:
            return "is an address with a zone, which only link-local ones have"
        return None

    def refusal_of_address(self, address: Address, host: str, port: int) -> str | None:
        """Why an address that `host` has may not be connected to; None if it may."""
        if any(
            address in network and port in (wanted or port,) for network, wanted in self._allowed.networks
        ):
            return None
        private = self.allow_private or self.name_allowed(host, port)
        for form in (address, *_embedded(address)):
            if found := _refusal(form, private):
                return found if form == address else f"{found} ({form}) inside of an IPv6 address"
        return None


def _refusal(address: Address, private: bool) -> str | None:
    if address in _METADATA:
        return "the address of a cloud's metadata service"
    for what, network in _NEVER_IN:
        if address in network:
            return what
    for what, network in _PRIVATE_IN:
        if address in network:
            return None if private else what
    if address.version == 6 and next(_embedded(address), None) is not None:
        return None  # it is what the address inside of it is
    return None if address.is_global and not address.is_reserved else "a reserved address"


def _embedded(address: Address) -> Any:
    """The IPv4 addresses that an IPv6 address leads to: mapped, compatible, NAT64, 6to4, Teredo, ISATAP."""
    if address.version == 4:
        return
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif (address in _IPV4_COMPATIBLE and number > 1) or address in _NAT64:
        yield low
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif (number >> 32) & 0xFCFFFFFF == 0x00005EFE:
        yield low


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(host: str) -> Network | None:
    try:
        return ipaddress.ip_network(host)
    except ValueError:
        return None


def _looks_numeric(name: str) -> bool:
    """As browsers tell it (WHATWG URL, "ends in a number"): the last label is decimal, octal or hexadecimal."""
    return re.fullmatch(r"\d+|0x[0-9a-f]*", name.rpartition(".")[2]) is not None


_ENTRY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s/:\[\]@]+))(?::(\d{1,5}))?")


def _host_and_port(entry: str) -> tuple[str, int | None]:
    if isinstance(entry, str):
        if _network(entry) is not None:
            return entry, None
        found = _ENTRY.fullmatch(entry)
        if found and (found[3] is None or 0 < int(found[3]) < 65536):
            host = found[1] or found[2]
            if _address(host) is not None or not (found[1] or _looks_numeric(host.lower().rstrip("."))):
                return host, int(found[3]) if found[3] else None
    raise InputError(
        f"allow_hosts: {entry!r} is not a host; right are a name (api.example.org), an address (10.1.2.3), either with "
        "a port (localhost:8080, [::1]:8080), or a network (10.1.0.0/16, whose host bits are zero)"
    )


def refused(where: str, why: str, *, sent: bool = False) -> ToolCallError:
    """The error for what the rules forbid.

    Of kind `parameter`, which is not tried again: another try meets the same rule, another address may not.
    `sent`: a request went out before, and this is where its answer (a redirect) led to.
    """
    how = (
        "if tools are meant to reach it, allow it with allow_hosts, or all private ones with allow_private "
        "(of kit:http, as --tools kit:http,allow=HOST:PORT or kit:http,private=yes; the server of an OpenAPI document is allowed where it is named: openapi:FILE#server=URL)"
    )
    text = f"{where} {why}, which tools may not reach; {how}"
    if sent:
        text = f"the answer redirects to a place that is refused: {text}"
    return ToolCallError(text, kind="parameter", happened="unknown" if sent else "no")
