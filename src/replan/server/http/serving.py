"""uvicorn as the service runs it: on sockets of ours, until it is told to end; open streams hold up nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from fastapi import FastAPI

from replan.errors import InputError
from replan.server.http.middleware import around
from replan.server.http.protocol import bounded
from replan.server.shared import Shared

BACKLOG = 4096
_TAKEN_AT_ONCE = 8
"""uvloop takes up one new connection a turn of the event loop, and turns are long where others ask much: the socket is listened on so
many times, or newcomers wait for seconds."""
_KEEP_ALIVE_SECS = 60
_TAKE_SECS = 0.1
"""For readers that take nothing, once streams have ended."""


class Server(uvicorn.Server):
    """Its signals are those of the process, and its end ends the streams first."""

    def __init__(self, config: uvicorn.Config, shared: Shared) -> None:
        super().__init__(config)
        self._shared = shared
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._shared.hub.stop()
        self.config.http_protocol_class.leaving = True  # type: ignore[attr-defined] # of ours
        for connection in list(self.server_state.connections):
            connection.leave()  # type: ignore[union-attr] # of ours
        loop = asyncio.get_running_loop()
        cut = loop.call_later(_TAKE_SECS, lambda: self._shared.sending.cut(loop.time()))
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()


@contextlib.asynccontextmanager
async def listening(app: FastAPI, shared: Shared, host: str, port: int) -> AsyncIterator[int]:
    """The application at that address, while the context is open; the port that it has."""
    bound = listener(host, port)
    section = shared.settings.server
    config = uvicorn.Config(
        around(app, shared),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECS,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.http_protocol_class = bounded(
        config.http_protocol_class,
        most_connections=section.max_connections,
        header_secs=shared.pace.header_secs,
        body_secs=shared.pace.body_secs,
    )
    server = Server(config, shared)
    sockets = [bound, *(bound.dup() for _ in range(_TAKEN_AT_ONCE - 1))]
    serving = asyncio.create_task(server.serve(sockets))
    started = asyncio.create_task(server.up.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield bound.getsockname()[1]
    finally:
        started.cancel()
        server.should_exit = True
        await asyncio.wait({serving})


def listener(host: str, port: int) -> socket.socket:
    """A socket that listens there; `InputError` says why none can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the service cannot listen on {host}:{port}: {reason}; another port: --port N, or [server] port"
        ) from error
    return bound
