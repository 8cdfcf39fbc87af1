"""The endpoints of webhooks: whether they may be connected to, and whether somebody is there. Nothing is sent to them."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from replan.cli.doctor.findings import Finding
from replan.core.hosts import is_loopback

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.config.sections import WebhookEndpoint

_SECS = 5.0
_MEANT = "where it is meant, allow it with allow_hosts or allow_private in [webhooks.endpoints.{name}]"
_AWAY = "start it, or correct its url; nothing is lost meanwhile, and no task waits"


def endpoints(settings: Settings) -> Iterator[Finding]:
    """One finding for each."""
    for name, endpoint in settings.webhooks.endpoints.items():
        parts = urlsplit(endpoint.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        told = f"{', '.join(endpoint.events)}" + (
            f" of {', '.join(endpoint.tenants)}" if endpoint.tenants else ""
        )
        facts = {
            "name": name,
            "address": f"{host}:{port}",
            "events": list(endpoint.events),
            "tenants": list(endpoint.tenants),
        }
        where = f"{name} ({host}:{port})"
        refused, away = asyncio.run(_reached(endpoint, host, port))
        if refused:
            yield Finding("webhooks", "problem", f"{where} {refused}", _MEANT.format(name=name), facts)
        elif away:
            yield Finding("webhooks", "problem", f"{where} is not there: {away}", _AWAY, facts)
        elif parts.scheme == "http" and not is_loopback(host):
            found = f"{where} is told {told}, without encryption"
            yield Finding("webhooks", "note", found, "whoever is on the way can read it: use https", facts)
        else:
            yield Finding("webhooks", "ok", f"{where} is told {told}", facts=facts)


async def _reached(endpoint: WebhookEndpoint, host: str, port: int) -> tuple[str, str]:
    """Why it may not be connected to, and why it could not be."""
    from replan.errors import InputError
    from replan.tools.network.addresses import AddressRules
    from replan.tools.network.transport import look_up

    try:
        rules = AddressRules(endpoint.allow_private, endpoint.allow_hosts)
    except InputError as error:
        return f"has an allow_hosts that is none: {error}", ""
    if why := rules.refusal_of_name(host, port):
        return why, ""
    try:
        async with asyncio.timeout(_SECS):
            found = [ipaddress.ip_address(each.partition("%")[0]) for each in await look_up(host, port)]
            reasons = [rules.refusal_of_address(each, host, port) for each in found]
            allowed = [str(each) for each, why in zip(found, reasons, strict=True) if why is None]
            if not allowed:
                return f"is {reasons[0]}, which webhooks may not reach", ""
            _, writer = await asyncio.open_connection(allowed[0], port)
            writer.close()
    except TimeoutError:
        return "", f"no connection within {_SECS:g} s"
    except OSError as error:
        return "", error.strerror or str(error)
    return "", ""
