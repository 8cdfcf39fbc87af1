"""What the client needs from a connection to one endpoint, and what may be wrong with one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from replan.core.hosts import is_loopback
from replan.errors import InputError, ToolCallError
from replan.ports import Progress
from replan.tools.bounds import MAX_RESULT_BYTES
from replan.tools.remote.messages import Execute, Listing

SCHEMES = ("http", "https", "grpc", "grpcs")


class TransportFailure(ToolCallError):
    """The service did not get the call, turned it away, or got lost: no word of the tool itself."""

    def __init__(self, message: str = "", **known: Any) -> None:
        super().__init__(
            f"{message}{_WHERE_THE_TOKEN_IS}" if known.get("status") == 401 else message, **known
        )


_WHERE_THE_TOKEN_IS = " (a service that wants one is set in config.toml: [tool_service] endpoint and token, or APP_TOOL_SERVICE_TOKEN)"


@dataclass(frozen=True)
class Endpoint:
    """Where a service is and how to talk to it. `token` and `headers` appear in no message."""

    url: str
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_secs: float = 5.0
    max_result_bytes: int = MAX_RESULT_BYTES
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        # Checked here, as the libraries that send them show the value in what they say.
        if self.token and re.fullmatch(r"[!-~]+", self.token) is None:
            raise InputError(
                f"{self.url}: the token has to be printable ASCII text without spaces and line breaks"
            )
        for name, value in self.headers.items():
            if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) is None:
                raise InputError(f"{self.url}: {name[:50]!r} is not a name of a header")
            if not value.isascii() or not value.isprintable():
                raise InputError(f"{self.url}: the value of header {name} has to be printable ASCII text")

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def is_loopback(self) -> bool:
        return is_loopback(urlsplit(self.url).hostname or "")


class Transport(Protocol):
    """One endpoint. Every method raises `ToolCallError`; `TransportFailure` where no tool has answered."""

    async def list_tools(self, known: str, wait_secs: float) -> Listing | None:
        """The tools; None while they are those of the revision `known`. The caller limits the time."""
        ...

    async def execute(self, request: Execute, report: Callable[[Progress], None] | None) -> Any: ...
    async def cancel(self, call_id: str) -> None: ...
    async def aclose(self) -> None: ...


def checked_url(text: str, protocol: str) -> str:
    """The endpoint's URL, its scheme from `protocol` where it has none; `InputError` for what is no endpoint."""
    url = text.strip()
    if "://" not in url:
        url = f"{protocol}://{url}"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.username is not None or parts.password is not None:
        shown = f"{parts.scheme}://…@{parts.hostname}"
        raise InputError(f"{shown}: a URL is not a place for a password; give the token apart (token=…)")
    if parts.scheme not in SCHEMES or not parts.hostname or port == -1:
        raise InputError(
            f"{text!r} is not an endpoint of a tool service; right is grpc://host:port, grpcs://host:port, "
            "http://host:port or https://host:port"
        )
    if parts.query or parts.fragment or (parts.scheme.startswith("grpc") and parts.path.strip("/")):
        raise InputError(
            f"{text!r}: an endpoint has no query, and with gRPC no path; give scheme, host and port"
        )
    if parts.scheme.startswith("grpc") and port is None:
        raise InputError(f"{text!r}: gRPC has no usual port; give one, like {url}:8471")
    return url.rstrip("/")
