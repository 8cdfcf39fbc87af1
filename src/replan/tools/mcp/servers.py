"""How an MCP server is reached: a command to start, or an address."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from replan.core.hosts import url_parts
from replan.core.secrets import KnownSecrets, secrets_of_headers, secrets_of_settings, url_without_secrets
from replan.errors import InputError

_CREDENTIAL = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie", re.IGNORECASE)
_HIDDEN_FROM = 6
"""A shorter value is no secret, and hiding it would make messages unreadable."""


@dataclass(frozen=True)
class StdioServer:
    """A program that speaks MCP over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the few variables that a server inherits (PATH, HOME and the like, never all of them)."""
    cwd: Path | None = None
    roots: tuple[Path, ...] = ()
    """Folders that the server is told it may work in (MCP roots); none: it is told of none."""
    known: KnownSecrets = field(default_factory=KnownSecrets, compare=False, repr=False)
    """What is known to be secret about it."""

    def __post_init__(self) -> None:
        for value in self.credentials():
            self.known.add(value)
        self.known.add_all(secrets_of_settings(self.args))

    def __str__(self) -> str:
        return self.command

    def secrets(self) -> tuple[str, ...]:
        return _long(self.env.values())

    def credentials(self) -> tuple[str, ...]:
        """Those of the secrets that are so by their names: the others are paths and the like, which errors have to name."""
        return _long(value for name, value in self.env.items() if _CREDENTIAL.search(name))


@dataclass(frozen=True)
class OAuth:
    """How to get tokens for an HTTP server (OAuth 2.1, as the MCP authorization chapter says).

    With a `client_secret`: client credentials, no person needed. Without: the authorization code flow with PKCE;
    a person logs in once, in a browser, and the tokens are kept in `token_file` (mode 0600).
    """

    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server that the secret belongs to; required with a secret, which goes nowhere else."""
    scope: str | None = None
    callback_port: int = 0
    """The loopback port that the browser comes back to; 0: any. A registered client has a fixed one."""
    token_file: Path | None = None
    """None: a file of this server's and client's own in the user's state folder."""
    person: Any = None
    """An `oauth.Person`: shows the address and gives what the browser brings back. None: one on the loopback."""


@dataclass(frozen=True)
class HttpServer:
    """An MCP endpoint. `transport` "sse" is the one of protocol 2024-11-05; the address is then that of its stream."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Literal["http", "sse"] = "http"
    oauth: OAuth | None = None
    roots: tuple[Path, ...] = ()
    known: KnownSecrets = field(default_factory=KnownSecrets, compare=False, repr=False)
    """What is known to be secret about it; its tokens, too, once there are some."""

    def __post_init__(self) -> None:
        for value in self.credentials():
            self.known.add(value)

    def __str__(self) -> str:
        return self.url.partition("?")[0].partition("#")[0]

    def secrets(self) -> tuple[str, ...]:
        words = [value for _, value in secrets_of_headers(self.headers)]
        try:
            query = [part.rpartition("=")[2] for part in urlsplit(self.url).query.split("&")]
        except ValueError:  # which `checked` will say
            query = []
        own = [self.oauth.client_secret] if self.oauth and self.oauth.client_secret else []
        return _long([*words, *query, *own])

    def credentials(self) -> tuple[str, ...]:
        return self.secrets()


Server: TypeAlias = StdioServer | HttpServer


def _long(values: Any) -> tuple[str, ...]:
    return tuple(sorted({v for v in values if len(v) >= _HIDDEN_FROM}, key=len, reverse=True))


def checked(server: Server, where: str = "") -> Server:
    """The server, if it can be one at all; else `InputError` that begins with `where`."""
    at = f"{where}: " if where else ""
    if isinstance(server, StdioServer):
        if not server.command.strip():
            raise InputError(f"{at}an MCP server needs a command, for instance 'npx'")
        if any("\0" in text for text in (server.command, *server.args)):
            raise InputError(f"{at}a command cannot contain a NUL character")
        return server
    parts = url_parts(server.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"{at}{url_without_secrets(server.url)!r} is not an http:// or https:// address of an MCP server"
        )
    if parts.username or parts.password:
        raise InputError(f"{at}put the password into a header, not into the address of {parts.hostname}")
    for name, value in server.headers.items():
        if "\n" in value or "\r" in value or not name.strip() or not value.isascii():
            raise InputError(f"{at}the header {name!r} has a value that HTTP cannot carry")
    if server.oauth and server.oauth.client_secret:
        if not server.oauth.client_id or not server.oauth.issuer:
            raise InputError(f"{at}client credentials need client_id, client_secret and issuer together")
        if url_parts(server.oauth.issuer).scheme not in ("http", "https"):
            raise InputError(
                f"{at}issuer is the http(s) address of the authorization server, not {server.oauth.issuer!r}"
            )
    return server


def default_name(server: Server) -> str:
    """A short name from the command or the address: the package or host, without what is the same everywhere."""
    if isinstance(server, HttpServer):
        host = urlsplit(server.url).hostname or "mcp"
        try:
            ipaddress.ip_address(host)
        except ValueError:
            parts = [part for part in host.split(".") if part not in ("www", "mcp", "api")]
            return parts[0] if parts else "mcp"
        return "mcp"
    if name := _name_of(server.command):
        return name
    if not _runs_others(server.command):
        return "mcp"  # a program's own arguments may be anything, also a secret
    return next(
        (name for word in server.args if not word.startswith("-") and (name := _name_of(word))), "mcp"
    )


_RUNNERS = frozenset(
    ("npx", "npm", "uvx", "uv", "node", "python", "python3", "py", "bun", "bunx", "pipx", "deno", "docker", "sh", "bash",
     "env", "run", "tool", "exec", "x")
)  # fmt: skip
_VERSION = "0123456789."
_NAMELESS = frozenset(("index", "main", "server", "cli", "dist", "build", "src", "bin", "lib", "__main__"))
_AFFIXES = re.compile(r"^(mcp[-_]server[-_]|server[-_]|mcp[-_])|([-_]mcp|[-_]server)$")


def _runs_others(command: str) -> bool:
    return Path(command).name.removesuffix(".exe").rstrip(_VERSION) in _RUNNERS


def _name_of(word: str) -> str:
    """What a word of a command line says of the server; empty for a runner's own words."""
    package = word.rpartition("/")[2] if word.startswith("@") else word
    for part in reversed(Path(package).parts):
        stem = re.sub(r"([@=].*|\.(py|m?js|cjs|ts|exe))$", "", part)
        if stem.rstrip(_VERSION) in _RUNNERS:
            return ""
        if stem and stem != "/" and stem not in _NAMELESS:
            return _AFFIXES.sub("", stem) or stem
    return ""
