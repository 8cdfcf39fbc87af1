"""A tool server as a whole: its ports, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replan.core.hosts import is_loopback
from replan.errors import InputError
from replan.files import read_bounded
from replan.ports import ToolSource
from replan.tools.remote.http_limits import BODY_SECS, HEADER_SECS, limited
from replan.tools.remote.keys import TTL_SECS, Keys
from replan.tools.remote.service import Service

GRACE_SECS = 10.0
_EXTRA = "the tool server needs more packages: pip install 'replan[remote]'"


class Tls(NamedTuple):
    """Files in PEM form."""

    certificate: Path
    key: Path


class Serving(NamedTuple):
    """Where a server listens, and what is not right with its tools."""

    urls: tuple[str, ...]
    tools: int
    problems: tuple[str, ...]


async def serve(
    sources: Sequence[ToolSource],
    *,
    host: str = "127.0.0.1",
    port: int | None = 8470,
    grpc_port: int | None = None,
    token: str | None = None,
    insecure: bool = False,
    tls: Tls | None = None,
    keys_file: Path | None = None,
    keys_ttl_secs: float = TTL_SECS,
    grace_secs: float = GRACE_SECS,
    ready: Callable[[Serving], None] | None = None,
    stop: asyncio.Event | None = None,
    **limits: Any,
) -> None:
    """Offer the tools until SIGTERM, SIGINT or `stop`; then calls that run may end within `grace_secs`.

    A signal that the process was started to ignore ends nothing.
    `port` (HTTP) and `grpc_port`: 0 takes a free one, None leaves that protocol out. `limits` are those of `Service`.
    Raises `InputError` for what cannot be served: a taken port, an address for others without a token.
    The sources are closed at the end.
    """
    async with running(
        sources,
        host=host,
        port=port,
        grpc_port=grpc_port,
        token=token,
        insecure=insecure,
        tls=tls,
        keys=Keys(keys_file, ttl_secs=keys_ttl_secs),
        grace_secs=grace_secs,
        **limits,
    ) as serving:
        stop = stop or asyncio.Event()
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # a script's `… &` ignores Ctrl-C, which is meant for the script
            # Windows has no handlers, and only the main thread may set them: `stop` ends the server there.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, stop.set)
                caught.append(number)
        try:
            if ready is not None:
                ready(serving)
            await stop.wait()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def running(
    sources: Sequence[ToolSource],
    *,
    keys: Keys,
    host: str = "127.0.0.1",
    port: int | None = 0,
    grpc_port: int | None = None,
    token: str | None = None,
    insecure: bool = False,
    tls: Tls | None = None,
    grace_secs: float = GRACE_SECS,
    header_secs: float = HEADER_SECS,
    body_secs: float = BODY_SECS,
    **limits: Any,
) -> AsyncIterator[Serving]:
    """A server that listens while the context is open; signals are the caller's.

    `header_secs`, `body_secs`: how long the head and the body of a request over HTTP may take to arrive (a body longer
    for its size).
    """
    if port is None and grpc_port is None:
        raise InputError("neither a port for HTTP nor one for gRPC was given")
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token or not token):
        raise InputError("the token has to be printable ASCII text without spaces")
    if not token and not insecure and not is_loopback(host):
        raise InputError(
            f"{host} can be reached by others, and there is no token: everybody could call your tools. "
            "Give a token (--token-env NAME), listen on 127.0.0.1, or say that it is meant (--insecure)"
        )
    service = Service(sources, keys=keys, **limits)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(service.aclose)
        await service.open()
        urls = []
        if port is not None:
            bound = _listening(host, port)
            stack.callback(bound.close)
            await stack.enter_async_context(_http(service, token, bound, tls, header_secs, body_secs))
            urls.append(f"{'https' if tls else 'http'}://{_shown(host)}:{bound.getsockname()[1]}")
        if grpc_port is not None:
            number = await stack.enter_async_context(_grpc(service, token, host, grpc_port, tls))
            urls.append(f"{'grpcs' if tls else 'grpc'}://{_shown(host)}:{number}")
        listing = await service.listing()
        problems = tuple(
            f"{each.tool}: {each.message}" if each.tool else each.message for each in listing.problems
        )
        # Drained first: both protocols go on answering, and turn new calls away, while old ones end.
        stack.push_async_callback(service.drain, grace_secs)
        yield Serving(tuple(urls), len(listing.tools), problems)


@contextlib.asynccontextmanager
async def _http(
    service: Service,
    token: str | None,
    bound: socket.socket,
    tls: Tls | None,
    header_secs: float,
    body_secs: float,
) -> AsyncIterator[None]:
    try:
        import uvicorn
    except ImportError as error:
        raise InputError(_EXTRA) from error
    from replan.tools.remote.server_http import HttpApp

    up = asyncio.Event()

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield  # they are the caller's

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            up.set()

    config = uvicorn.Config(
        HttpApp(service, token),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=2,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
    )
    with _tls_errors(tls):
        config.load()
    config.http_protocol_class = limited(
        config.http_protocol_class, header_secs=header_secs, body_secs=body_secs
    )
    server = Server(config)
    task = asyncio.create_task(server.serve([bound]))
    started = asyncio.create_task(up.wait())
    try:
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        started.cancel()
        server.should_exit = True
        await asyncio.wait({task})


@contextlib.asynccontextmanager
async def _grpc(
    service: Service, token: str | None, host: str, port: int, tls: Tls | None
) -> AsyncIterator[int]:
    try:
        import grpc

        from replan.tools.remote.server_grpc import make_server
    except ImportError as error:
        raise InputError(_EXTRA) from error

    server = make_server(service, token)
    address = f"{_shown(host)}:{port}"
    try:
        if tls is None:
            number = server.add_insecure_port(address)
        else:
            with _tls_errors(tls):
                pair = (read_bounded(tls.key), read_bounded(tls.certificate))
                number = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        raise InputError(f"gRPC cannot listen on {address}: is the port taken? ({error})") from error
    await server.start()
    try:
        yield number
    finally:
        await server.stop(1.0)


@contextlib.contextmanager
def _tls_errors(tls: Tls | None) -> Any:
    try:
        yield
    except (OSError, ValueError) as error:
        if tls is None:
            raise
        raise InputError(
            f"{tls.certificate} and {tls.key} are not certificate and key in PEM form: {error}"
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, as asyncio turns Nagle's algorithm (40 ms for some answers) off for that alone.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the server cannot listen on {host}:{port}: {reason}") from error
    return bound


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
