"""The parts of addresses, and what a host's name says of where it is."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit


def url_parts(url: str) -> SplitResult:
    """The parts of an address; of what is none at all (`http://[::1/x`) they are empty, and so refused by whoever wants a scheme and a host."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine (RFC 6761, 6.3: `localhost` and all below it)."""
    name = host.casefold().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
