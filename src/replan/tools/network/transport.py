"""HTTP connections that are checked where they are made; see `guarded_client`."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

import httpcore2
import httpx2

from replan.connections import Network, certificates
from replan.core.words import in_digits
from replan.tools.bounds import IDLE_SECS
from replan.tools.network.addresses import Address, AddressRules, Refusal, Resolve, refused

_FOLLOWED = "replan.followed"

_MOST_CONNECTIONS = 100


class _Refused(Exception):
    """A connection that the rules forbid: where, and why."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """A transport of httpx2 over a pool whose every connection is made by `GuardedNetwork`."""

    def __init__(
        self,
        rules: AddressRules,
        *,
        resolve: Resolve | None = None,
        verify: ssl.SSLContext | None = None,
        refusal: Refusal = refused,
    ) -> None:
        self._refusal = refusal
        self._network = Network(GuardedNetwork(rules, resolve or look_up))
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify or certificates(trust_env=False),
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_CONNECTIONS,
            keepalive_expiry=IDLE_SECS,
            network_backend=self._network,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        followed = _FOLLOWED in request.extensions
        if request.url.scheme not in ("http", "https") or not request.url.host:
            why = "has a scheme other than http and https" if request.url.host else "names no host"
            raise self._refusal(f"{request.url.scheme}://{request.url.host}", why, sent=followed)
        try:
            answer = await self._pool.handle_async_request(_as_core(request))
        except _Refused as error:
            raise self._refusal(*error.args, sent=followed) from None
        except Exception as error:
            raise _translated(error, request) from error
        if 300 <= answer.status < 400:  # a request that follows takes the extensions over
            request.extensions = {**request.extensions, _FOLLOWED: True}
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream, request),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
        await self._network.settled()


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Looks a name up once, and connects to one of the addresses that the rules allow."""

    def __init__(self, rules: AddressRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
                for nth, address in enumerate(addresses, 1):
                    share = None if timeout is None else timeout / len(addresses)
                    try:
                        return await self._inner.connect_tcp(
                            str(address), port, share, local_address, socket_options
                        )
                    except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                        if nth == len(addresses):
                            raise
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(
                f"no connection to {host}:{port} within {in_digits(timeout)} s"
            ) from error
        raise httpcore2.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise _Refused(path, "is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of the host that may be connected to, at most four."""
        if why := self._rules.refusal_of_name(host, port):
            raise _Refused(f"{host}:{port}", why)
        try:
            found = [ipaddress.ip_address(host)]
        except ValueError:
            try:
                texts = await self._resolve(host, port)
            except OSError as error:
                raise httpcore2.ConnectError(f"the name {host} cannot be looked up: {error}") from error
            found = [ipaddress.ip_address(text.partition("%")[0]) for text in dict.fromkeys(texts)]
        allowed: list[Address] = []
        first: tuple[str, str] | None = None
        for address in found:
            reason = self._rules.refusal_of_address(address, host, port)
            if reason is None:
                allowed.append(address)
            elif first is None:
                where = f"{host}:{port}" if str(address) == host else f"{host}:{port} ({address})"
                first = (where, f"is {reason}")
        if not allowed and first is not None:
            raise _Refused(*first)
        return allowed[:4]


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a name as this machine knows them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, request: httpx2.Request) -> None:
        self._stream: AsyncIterable[bytes] = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except Exception as error:
            raise _translated(error, self._request) from error

    async def aclose(self) -> None:
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


def _as_core(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _translated(error: Exception, request: httpx2.Request) -> Exception:
    """The error of httpcore2 as the one of httpx2 that has its name; any other as it is."""
    for kind in type(error).__mro__:
        if kind.__module__.startswith("httpcore2"):
            ours = getattr(httpx2, kind.__name__, None)
            if isinstance(ours, type) and issubclass(ours, httpx2.RequestError):
                return ours(str(error), request=request)
    return error
