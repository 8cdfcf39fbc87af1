"""What the client needs from a connection to one endpoint, and what may be wrong with one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from replan.core.hosts import is_loopback, url_parts
from replan.core.secrets import KnownSecrets, secrets_of_headers, url_without_secrets
from replan.errors import InputError, ReplanError, ToolCallError
from replan.ports import Progress
from replan.tools.bounds import MAX_RESULT_BYTES
from replan.tools.remote.messages import Execute, Listing

SCHEMES = ("http", "https", "grpc", "grpcs")


class TransportFailure(ToolCallError):
    """The service did not get the call, turned it away, or got lost: no word of the tool itself."""

    def __init__(self, message: str = "", **known: Any) -> None:
        # Once, however often the failure is raised anew in other words.
        lacks = known.get("status") == 401 and not message.endswith(_WHERE_THE_TOKEN_IS)
        super().__init__(f"{message}{_WHERE_THE_TOKEN_IS}" if lacks else message, **known)


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
    secrets: KnownSecrets = field(default_factory=KnownSecrets, repr=False, compare=False)
    """What is hidden of all that the service says in its errors: the token and the headers, at least."""

    def __post_init__(self) -> None:
        self.secrets.add(self.token, "token")
        self.secrets.add_all(secrets_of_headers(self.headers))
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

    def words(self, said: str, most: int) -> str:
        """The beginning of what the service says, without what is secret: hidden before it is cut, so that no part of it stays."""
        return self.secrets.hide(said)[:most]

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def is_loopback(self) -> bool:
        return is_loopback(urlsplit(self.url).hostname or "")


@contextlib.contextmanager
def hushed(endpoint: Endpoint) -> Iterator[None]:
    """Every error leaves this as one of a call, and with nothing secret of the endpoint in its message, whoever has put it there."""
    try:
        yield
    except ToolCallError as error:
        error.args = (endpoint.secrets.hide(str(error)),)
        raise
    except ReplanError:
        raise
    except Exception as error:
        # What nobody foresaw is no word of the tool: it may have come after the effect.
        text = endpoint.secrets.hide(f"{endpoint.url}: {type(error).__name__}: {error}")
        raise ToolCallError(text, kind="output", happened="unknown") from error


class Hushed:
    """A transport whose errors, and the problems that it lists, hold nothing that is secret of its endpoint."""

    def __init__(self, inner: Transport, endpoint: Endpoint) -> None:
        self._inner = inner
        self._endpoint = endpoint

    async def list_tools(self, known: str, wait_secs: float) -> Listing | None:
        with hushed(self._endpoint):
            found = await self._inner.list_tools(known, wait_secs)
        if found is None or not found.problems:
            return found
        hide = self._endpoint.secrets.hide
        return found._replace(
            problems=tuple(each._replace(message=hide(each.message)) for each in found.problems)
        )

    async def execute(self, request: Execute, report: Callable[[Progress], None] | None) -> Any:
        with hushed(self._endpoint):
            return await self._inner.execute(request, report)

    async def cancel(self, call_id: str) -> None:
        with hushed(self._endpoint):
            await self._inner.cancel(call_id)

    async def aclose(self) -> None:
        await self._inner.aclose()


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
    parts = url_parts(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.username is not None or parts.password is not None:
        shown = f"{parts.scheme}://…@{parts.hostname}"
        raise InputError(f"{shown}: a URL is not a place for a password; give the token apart (token=…)")
    if parts.scheme not in SCHEMES or not parts.hostname or port == -1:
        raise InputError(
            f"{url_without_secrets(text)!r} is not an endpoint of a tool service; right is grpc://host:port, grpcs://host:port, "
            "http://host:port or https://host:port"
        )
    if parts.query or parts.fragment or (parts.scheme.startswith("grpc") and parts.path.strip("/")):
        raise InputError(
            f"{text!r}: an endpoint has no query, and with gRPC no path; give scheme, host and port"
        )
    if parts.scheme.startswith("grpc") and port is None:
        raise InputError(f"{text!r}: gRPC has no usual port; give one, like {url}:8471")
    return url.rstrip("/")
