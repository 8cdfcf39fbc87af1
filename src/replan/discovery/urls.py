"""From what a registry lists to the address that a client is given."""

from __future__ import annotations

import ipaddress
import re

from replan.ports import Instance

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~%+:@-]*)*")
_SCHEME = re.compile(r"[a-z]{1,10}")


def problem_of(instance: Instance) -> str:
    """Why no address can be made of it; empty if one can."""
    if not 0 < instance.port < 65536:
        return f"{instance.host[:100]!r} has no port"
    if not _is_host(instance.host):
        return f"{instance.host[:100]!r} is no address"
    if not _PATH.fullmatch(instance.path) or len(instance.path) > 500:
        return f"{instance.path[:100]!r} is no path"
    if instance.scheme and not _SCHEME.fullmatch(instance.scheme):
        return f"{instance.scheme[:20]!r} is no scheme"
    return ""


def url_of(instance: Instance, scheme: str) -> str:
    """Its address; `scheme`: where the registry does not say one."""
    host = f"[{instance.host}]" if ":" in instance.host else instance.host
    return f"{instance.scheme or scheme}://{host}:{instance.port}{instance.path.rstrip('/')}"


def _is_host(host: str) -> bool:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return ":" not in host and _NAME.fullmatch(host) is not None
    # An address of one link alone means nothing without the link.
    return not found.is_unspecified and not (found.version == 6 and "%" in host)
