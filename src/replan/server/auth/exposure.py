"""Whether the service may listen where the settings say, and by which names it may be called."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from replan.config.sections import Server, Settings
from replan.core.hosts import is_loopback
from replan.errors import ConfigError

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
log = logging.getLogger("replan.server")


def asking_who_calls(settings: Settings) -> Settings:
    """The settings, with keys asked for where others may call and nothing says how they are known.

    A configuration of the older service has `host = "0.0.0.0"` and knows no `auth`: it starts, and lets nobody in unasked.
    """
    server = settings.server
    if "auth" in server.model_fields_set or is_loopback(server.host):
        return settings
    log.warning(
        '[server] host = "%s" lets other machines call, and [server] auth is not set: callers need a key, as with auth = "keys"; '
        "`replan keys create` makes one",
        server.host,
    )
    return settings.model_copy(update={"server": server.model_copy(update={"auth": "keys"})})


def check_exposure(settings: Settings) -> None:
    """`ConfigError` where others than people of this machine could use it without saying who they are."""
    server = settings.server
    if server.auth != "off":
        return
    if not is_loopback(server.host):
        raise ConfigError(
            f'[server] host = "{server.host}" lets other machines call, and [server] auth = "off" asks nobody who they are: '
            'set [server] auth = "keys" (APP_SERVER_AUTH=keys) and make a key with `replan keys create`, or "oidc" with [oidc], '
            'or listen on this machine only with host = "127.0.0.1"'
        )
    if "*" in server.cors_origins:
        raise ConfigError(
            '[server] cors_origins = ["*"] with auth = "off" lets every page that is open in a browser here submit tasks: '
            'name the origins, or set auth = "keys"'
        )


class Hosts(NamedTuple):
    """Names that the service may be called by: a page must not reach it by a name of its own that leads here (DNS rebinding)."""

    names: tuple[str, ...]

    @staticmethod
    def of(server: Server) -> Hosts:
        unset = (*LOOPBACK_NAMES, server.host) if server.auth == "off" else ("*",)
        return Hosts(tuple(name.casefold() for name in server.allowed_hosts or unset))

    def fit(self, host: str | None) -> bool:
        """Whether a `Host` header (`example.com:8080`, `[::1]:8080`) has one of them."""
        if "*" in self.names:
            return True
        name = _name_of(host or "")
        return name is not None and any(_fits(name, wanted) for wanted in self.names)


def page_fits(origin: str | None, host: str | None, server: Server) -> bool:
    """Whether a page of that `Origin` may call: the service's own, or one that is named. No page: whoever may call at all.

    Where callers bring a key, that is asked of whoever has it; where nobody brings one, a browser would send anything for any page.
    """
    if origin is None or server.auth != "off" or origin in server.cors_origins:
        return True
    return host is not None and origin.casefold() in (
        f"http://{host}".casefold(),
        f"https://{host}".casefold(),
    )


def _name_of(host: str) -> str | None:
    found = _HOST.fullmatch(host.casefold())
    return found and (found["address"] or found["name"])


def _fits(name: str, wanted: str) -> bool:
    if wanted.startswith("*."):
        return name.rstrip(".").endswith(wanted[1:])
    return name.rstrip(".") == wanted.strip("[]")
