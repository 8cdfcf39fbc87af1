"""HTTP connections whose closing no cancellation interrupts.

httpcore2 drops connections that are no longer wanted from its pool, and closes them one after the other in the request
that happens to come next. It shields that from anyio's cancellation, not from asyncio's: a request that is cancelled
in between leaves the others to the garbage collector. So closing is begun for each without waiting, and waited for
when the client is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from replan.core.hosts import is_loopback, url_parts
from replan.errors import InputError


class Transport(httpx2.AsyncHTTPTransport):
    """The transport of a client of one server, on connections of `Network`; `options` are those of httpx2.

    It goes through the proxy that the environment names for the server; `InputError` if that cannot be used.
    """

    def __init__(self, url: str, **options: Any) -> None:
        proxy = proxy_to(url)
        if options.get("verify", True) is True:
            options["verify"] = trusted(url)
        try:
            super().__init__(proxy=proxy, **options)
        except (ImportError, ValueError) as error:
            if proxy is None:
                raise
            where = url_parts(url).hostname
            reason = (
                str(error) if isinstance(error, ImportError) else "its URL has to be http, https or socks5"
            )
            raise InputError(
                f"the proxy that the environment names for {where} cannot be used: {reason}"
            ) from None  # its URL may hold a password
        # The pool takes a network; httpx2 has no way to name it.
        self._network = self._pool._network_backend = Network(self._pool._network_backend)

    async def aclose(self) -> None:
        await super().aclose()
        await self._network.settled()


_NAMED_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def certificates(*, trust_env: bool = True) -> ssl.SSLContext:
    """The trusted certificates: of the system, or those that the environment names. `OSError` if these cannot be read.

    To read them takes some 25 ms and a megabyte: it is done once, and anew where others are named or their file has changed.
    """
    if not trust_env:
        return _certificates(False)
    named = tuple(os.environ.get(name) or "" for name in _NAMED_CERTIFICATES)
    return _certificates(True, *named, os.stat(named[0]).st_mtime_ns if named[0] else 0)


@lru_cache(maxsize=4)
def _certificates(trust_env: bool, *named: str | int) -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=trust_env)


def trusted(url: str) -> ssl.SSLContext:
    """Whose certificates count; `InputError` where the environment names files that cannot be read.

    Without encryption nobody has to vouch for the server; who is sent on to an encrypted one then trusts nobody.
    """
    try:
        return certificates()
    except OSError as error:
        if url_parts(url).scheme == "http":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        named = [f"{name}={os.environ[name]}" for name in _NAMED_CERTIFICATES if os.environ.get(name)]
        raise InputError(
            f"the certificates that the environment names ({', '.join(named) or 'none'}) cannot be used: "
            f"{error.strerror or error}; name a file of trusted certificates, or unset the variable"
        ) from None


def proxy_to(url: str) -> str | None:
    """The proxy that the environment names for this URL (`HTTPS_PROXY`, `ALL_PROXY`, …; `NO_PROXY`), if any.

    Nothing on this machine is asked through a proxy.
    """
    parts = url_parts(url)
    if not parts.hostname or is_loopback(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    named = getproxies()
    found = named.get(parts.scheme) or named.get("all")
    return found if not found or "://" in found else f"http://{found}"


class Network(httpcore2.AsyncNetworkBackend):
    """Another network's connections, each closed without waiting for it."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner
        self._closing: set[asyncio.Task[None]] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        made = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(made, self)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.connect_unix_socket(path, timeout, socket_options), self)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    def close(self, stream: httpcore2.AsyncNetworkStream) -> None:
        """Begin to close a connection."""
        task = asyncio.get_running_loop().create_task(_closed(stream))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def settled(self) -> None:
        """Wait until every connection that is being closed is closed."""
        if closing := list(self._closing):
            await asyncio.wait(closing)


async def _closed(stream: httpcore2.AsyncNetworkStream) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        await stream.aclose()


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, network: Network) -> None:
        self._inner = inner
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        self._network.close(self._inner)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
