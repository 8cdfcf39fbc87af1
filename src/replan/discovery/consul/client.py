"""What is asked of a Consul agent: one bounded request at a time, and every fault in one form."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from replan.beside import beside
from replan.core.secrets import KnownSecrets
from replan.core.words import beginning, in_digits, one_line
from replan.errors import ConfigError, InputError, RegistryUnavailable

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 4_000_000
"""Of an answer."""
_JSON_BESIDE_BYTES = 100_000


@dataclass(frozen=True)
class Agent:
    """Where the agent is, and who asks it. The token appears in no message."""

    host: str = "127.0.0.1"
    port: int = 8500
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def __post_init__(self) -> None:
        if re.fullmatch(r"[A-Za-z0-9_.:%-]{1,253}", self.host) is None:
            raise ConfigError(f"[consul] host: {self.host!r} is no name or address of a host")
        if self.token and re.fullmatch(r"[!-~]+", self.token) is None:
            raise ConfigError("[consul] token has to be printable ASCII text without spaces and line breaks")
        named = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name)]
        if named and not self.tls:
            raise ConfigError(f"[consul] {named[0]} is for encrypted connections: set tls = true beside it")
        if self.key_file and not self.cert_file:
            raise ConfigError("[consul] key_file is the key of a certificate: set cert_file beside it")


class Answered(NamedTuple):
    """An answer of the agent."""

    status: int
    body: Any
    """None where there is none."""
    mark: int
    """Its index, for the next question."""


class Consul:
    """One agent. Its connections are those of the event loop in which it is asked."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = f"Consul at {agent.url}"
        self._secrets = KnownSecrets()
        self._secrets.add(agent.token, "token")
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        secs: float,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        missing: bool = False,
    ) -> Answered:
        """Its answer within `secs`; `RegistryUnavailable` for anything but success, or with `missing` a 404."""
        import httpx2

        try:
            client = self._ready()
            async with (
                asyncio.timeout(secs),
                client.stream(method, path, params=dict(params or {}), json=body) as answer,
            ):
                content = await self._read(answer)
        except TimeoutError:
            raise RegistryUnavailable(f"no answer within {in_digits(secs)} s") from None
        except InputError as error:  # certificates, or the environment's proxy
            raise RegistryUnavailable(str(error)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            said = one_line(str(error)) or type(error).__name__
            raise RegistryUnavailable(f"it cannot be reached: {beginning(said, 200)}") from error
        status = answer.status_code
        if status == 404 and missing:
            return Answered(status, None, 0)
        if status != 200:
            raise RegistryUnavailable(_refusal(status, content))
        kind = self._secrets.hide(answer.headers.get("content-type", ""))
        return Answered(status, await _parsed(content, kind), _index(answer.headers.get("x-consul-index")))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _ready(self) -> httpx2.AsyncClient:
        import httpx2

        from replan.connections import Transport

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            options: dict[str, Any] = {"verify": trusted(self.agent)} if self.agent.tls else {}
            self._client = httpx2.AsyncClient(
                base_url=self.agent.url,
                transport=Transport(self.agent.url, **options),
                headers={"X-Consul-Token": self.agent.token} if self.agent.token else {},
                timeout=httpx2.Timeout(None, connect=5.0),
                trust_env=False,
            )
            self._loop = loop
        return self._client

    async def _read(self, answer: httpx2.Response) -> bytes:
        content = bytearray()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > MOST_BYTES:
                raise RegistryUnavailable(f"its answer has more than {MOST_BYTES:,} bytes")
        data = bytes(content)
        if not self._secrets.may_stand_in(data):
            return data
        # What comes back is told in logs, and by `/ready` to anybody: an agent, or a proxy before it, that repeats the token gives it away.
        return self._secrets.hide(data.decode("utf-8", "replace")).encode()


async def _parsed(content: bytes, kind: str) -> Any:
    """The JSON in an answer. Of another kind it may be without a body only, as that of a change is."""
    if not content.strip():
        return None
    if "json" not in kind:
        raise RegistryUnavailable(
            f"it does not answer as Consul does ({beginning(one_line(kind), 50) or 'content of no kind'}): "
            "is something else at this address?"
        )
    try:
        if len(content) > _JSON_BESIDE_BYTES:
            return await beside(json.loads, content)
        return json.loads(content)
    except (ValueError, RecursionError):
        raise RegistryUnavailable("its answer is no JSON") from None


def _index(text: str | None) -> int:
    """Its index; 0 where it is none, or goes where none can: then it is asked anew."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else 0


def _refusal(status: int, content: bytes) -> str:
    said = one_line(content[:300].decode("utf-8", "replace"))
    if "<" in said:  # a page of somebody in between
        said = ""
    if status in (401, 403):
        return f"it refuses (HTTP {status}{': ' if said else ''}{said}): set [consul] token to one that may do this"
    return f"HTTP {status}{': ' if said else ''}{said}"


def trusted(agent: Agent) -> ssl.SSLContext:
    """Whose certificates count, and ours where it wants one; `ConfigError` where they cannot be read."""
    try:
        context = ssl.create_default_context(cafile=agent.ca_file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"[consul] ca_file {agent.ca_file!r} cannot be used: {_why(error)}") from None
    if agent.cert_file:
        try:
            context.load_cert_chain(agent.cert_file, agent.key_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"[consul] cert_file {agent.cert_file!r} (with key_file) cannot be used: {_why(error)}"
            ) from None
    return context


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
