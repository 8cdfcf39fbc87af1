"""What a host's name says of where it is."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine (RFC 6761, 6.3: `localhost` and all below it)."""
    name = host.casefold().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
