"""Requests to a service: sent again as far as that is safe, and what they come to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import SecretStr

from replan.client.problems import MOST_BYTES, error_of, retry_after
from replan.core.data.strict_json import NotStorable, write_strictly
from replan.core.hosts import is_loopback, url_parts
from replan.core.ids import task_id_problem
from replan.core.secrets import url_without_secrets
from replan.errors import InputError, ReplanError, ServiceError, ServiceUnreachable, TaskNotFound
from replan.run.session.given import read_source

ROOT = "/api/v1"
CONNECT_SECS = 10.0
ANSWER_SECS = 60.0
"""Beside what a call itself is asked to wait."""
QUIET_SECS = 60.0
"""A stream in which not even a sign of life comes for so long is cut off."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_TELL_SECS = 1.0
_BUSY = frozenset({429, 502, 503, 504})
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
Key: TypeAlias = str | SecretStr | Callable[[], str]


class Refused(Exception):
    """What the service has answered in place of a stream."""

    def __init__(self, error: ReplanError, status: int, body: bytes, after: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.passes = passes(status, body, after)
        self.retry_after = after


class Pauses:
    """Between two tries: longer each time, and not in step with other clients. They end after `patience_secs` without success."""

    def __init__(
        self, patience_secs: Callable[[], float], told: Callable[[ReplanError, float], None] | None = None
    ) -> None:
        """`told`: once, of what stands in the way for more than a second, and how long it is tried yet."""
        self._patience_secs = patience_secs
        self._told = told
        self._next = _FIRST_PAUSE
        self._since: float | None = None

    def succeeded(self) -> None:
        self._next, self._since = _FIRST_PAUSE, None

    async def pause(self, error: ReplanError, least: float | None = None) -> None:
        """Wait a little; raises `error` if that has gone on for too long. `least`: as the service wants it."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        secs = max(self._next * random.uniform(0.5, 1.0), least or 0.0)
        left = self._since + self._patience_secs() - now
        if secs > left:
            raise error
        if self._told is not None and now - self._since > _TELL_SECS:
            self._told(error, left)
            self._told = None
        self._next = min(2 * self._next, _LONGEST_PAUSE)
        await asyncio.sleep(secs)


def address_of(url: str | None) -> str:
    """The address that calls begin with; None takes `REPLAN_SERVER`."""
    given = url if url is not None else os.environ.get("REPLAN_SERVER", "")
    if not given:
        raise InputError("which service? Give its address, http://HOST:PORT, or set REPLAN_SERVER")
    parts = url_parts(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"{url_without_secrets(given)!r:.200} is no address of a service: write http://HOST:PORT"
        )
    if parts.username or parts.password:
        raise InputError("the address of a service holds no key: give it as api_key, or in REPLAN_API_KEY")
    if parts.query or parts.fragment:
        raise InputError(f"{url_without_secrets(given)!r:.200}: the address of a service ends with its path")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(ROOT) else path + ROOT}"


def key_of(key: Key | None) -> Callable[[], str | None]:
    """What gives the key for a request: `env:VARIABLE`, `file:PATH`, itself, or a function; None takes `REPLAN_API_KEY`."""
    if callable(key):
        return key
    given = key.get_secret_value() if isinstance(key, SecretStr) else key
    if given is None:
        given = os.environ.get("REPLAN_API_KEY", "")
    value = read_source(given, "the key of the service") or given
    if not _is_of_headers(value):
        raise InputError("the key of the service holds what no key does: printable ASCII characters only")
    return lambda: value or None


def _is_of_headers(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


class Connection:
    """One service, over as many connections as it takes."""

    def __init__(
        self, url: str | None, key: Key | None, *, patience_secs: float, headers: Mapping[str, str] | None
    ) -> None:
        self.url = address_of(url)
        self.first_secs = self._patience_secs = patience_secs
        """`first_secs`: how long it is tried before it has answered for the first time."""
        self._reached = False
        self.told: Callable[[ReplanError, float], None] | None = None
        """See `Pauses`."""
        self.key = key_of(key)
        self._headers = dict(headers or {})
        if wrong := [name for name, value in self._headers.items() if not _is_of_headers(name + value)]:
            raise InputError(f"headers: {wrong[0]!r:.100}: printable ASCII characters only")
        self._client: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def pauses(self) -> Pauses:
        """Between the tries of one call."""
        return Pauses(lambda: self._patience_secs if self._reached else self.first_secs, self.told)

    @property
    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            host = urlsplit(self.url).hostname or ""
            self._client = httpx2.AsyncClient(
                headers=self._headers,
                timeout=httpx2.Timeout(ANSWER_SECS, connect=CONNECT_SECS),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
                trust_env=not is_loopback(host),
            )
        return self._client

    def _signed(self, headers: Mapping[str, str]) -> dict[str, str]:
        key = self.key()
        return {**headers, **({"authorization": f"Bearer {key}"} if key else {})}

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool | None = None,
        wait_secs: float = 0.0,
        fine: Collection[int] = (),
    ) -> Any:
        """The JSON that the service answers with; raises the error that it names.

        `again`: whether it may be sent once more where nobody knows if it was done (None: if it only reads). `wait_secs`: how
        long the service was asked to take. `fine`: statuses beside those of success that come with an answer.
        """
        again = method == "GET" if again is None else again
        url = self.url + path
        content = None if body is None else _written(body)
        kind = {"accept": "application/json"}
        for name, value in (headers or {}).items():
            if not _is_of_headers(value):
                raise InputError(f"{name}: {value!r:.100}: printable ASCII characters only")
        if content is not None:
            kind["content-type"] = "application/json"
        pauses = self.pauses()
        while True:
            least: float | None = None
            try:
                response = await self._open.request(
                    method,
                    url,
                    params=_params(params),
                    content=content,
                    headers=self._signed({**kind, **(headers or {})}),
                    timeout=httpx2.Timeout(ANSWER_SECS + wait_secs, connect=CONNECT_SECS),
                )
            except httpx2.TransportError as error:
                unreachable = _unreachable(self.url, error)
                if not again and not isinstance(error, _NEVER_SENT):
                    raise ServiceUnreachable(
                        f"{unreachable}; it was sent, and nobody knows whether it was done: look at the task"
                    ) from error
                problem: ReplanError = unreachable
            else:
                self._reached = True
                if response.is_success or response.status_code in fine:
                    return _json(response)
                problem = error_of(response.status_code, response.content, response.headers)
                least = retry_after(response.headers)
                unclear = response.status_code in (500, 502, 504)  # it may have been done
                if not passes(response.status_code, response.content, least) or (unclear and not again):
                    raise problem
            await pauses.pause(problem, least)

    @contextlib.asynccontextmanager
    async def streamed(
        self, path: str, *, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """One answer whose body comes piece by piece, tried once; `Refused` with the error that the service names."""
        async with self._open.stream(
            "GET",
            self.url + path,
            params=_params(params),
            headers=self._signed(headers or {}),
            timeout=httpx2.Timeout(QUIET_SECS, connect=CONNECT_SECS),
        ) as response:
            self._reached = True
            if not response.is_success:
                body = b""
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        break
                error = error_of(response.status_code, body, response.headers)
                raise Refused(error, response.status_code, body, retry_after(response.headers))
            yield response


def quoted(part: str) -> str:
    """One part of a path, whatever is in it; `InputError` for what leads elsewhere."""
    if part in ("", ".", ".."):
        raise InputError(f"{part!r} is no id")
    return quote(part, safe="")


def task_path(task_id: str) -> str:
    """Where a task is; `TaskNotFound` for what can be no task's id."""
    if task_id_problem(task_id):
        raise TaskNotFound(task_id[:200], where="this service")
    return f"/tasks/{task_id}"


def _written(body: Any) -> bytes:
    try:
        return write_strictly(body)
    except NotStorable as error:
        raise InputError(f"what is to be sent cannot be JSON: {error}") from None


def passes(status: int, body: bytes, after: float | None) -> bool:
    """Whether it may be otherwise in a moment. The service says so by when to come again; what stands between, and an answer that
    was cut off in its midst, by the status."""
    return after is not None if body.startswith(b"{") else status in _BUSY or status == 500


def _params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None and value != ()}


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ServiceError(
            f"{response.request.url} answered with no JSON: is it the address of a Replan service?",
            status=response.status_code,
        ) from None


def _unreachable(url: str, error: Exception) -> ServiceUnreachable:
    said = " ".join(str(error).split()) or type(error).__name__
    return ServiceUnreachable(f"the service at {url.removesuffix(ROOT)} cannot be reached: {said}")


def unreachable(connection: Connection, error: Exception) -> ServiceUnreachable:
    return _unreachable(connection.url, error)
