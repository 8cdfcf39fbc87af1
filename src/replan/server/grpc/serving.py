"""The server for gRPC: its port, its limits, health and reflection, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer

from replan.errors import InputError
from replan.server.grpc.connections import Connections, most_accepted
from replan.server.grpc.messages import SERVICE
from replan.server.grpc.servicer import Servicer
from replan.server.grpc.standing import MOST_STREAMS, Standing
from replan.server.process import most_files
from replan.server.seldom import Seldom
from replan.server.shared import Shared

log = logging.getLogger("replan.server")
MOST_REQUEST_BYTES = 4 * 2**20
MOST_RESPONSE_BYTES = 256 * 2**20
_GRACE_SECS = 0.5
_IDLE_MS = 60_000
"""So long a connection may be held on which nothing is asked: there are only so many."""
_OTHER_CALLS = 1_000
"""Side by side, beside the streams."""
_MOST_PENDING = 8_000
"""Calls that have come and are not taken up yet: gRPC cancels some of them by chance from there on, of whoever they are."""
_SERVICES = (SERVICE, "")
"""Of which health is told; empty: the server's."""


@contextlib.asynccontextmanager
async def serving_grpc(
    here: Shared, host: str, port: int, *, grace_secs: float = _GRACE_SECS
) -> AsyncIterator[int]:
    """A server that listens while the context is open; its port. 0 takes a free one.

    At its end it takes no new calls, ends its streams, and lets the other calls end within the grace.
    """
    most = here.settings.server.max_connections + _OTHER_CALLS + MOST_STREAMS
    server = grpc.aio.server(
        maximum_concurrent_rpcs=most,
        options=[
            ("grpc.max_receive_message_length", MOST_REQUEST_BYTES),
            ("grpc.max_send_message_length", MOST_RESPONSE_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.server.max_pending_requests", _MOST_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", 2 * _MOST_PENDING),
            # A watcher may hear nothing for hours: who is gone is found out all the same.
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            (
                "grpc.max_allowed_incoming_connections",
                most_accepted(here.settings.server.max_connections, most_files()),
            ),
            ("grpc.server_handshake_timeout_ms", 10_000),
        ],
    )
    gave_way = Seldom(log, logging.WARNING, "a connection over gRPC on which nothing was asked gave way")
    connections = Connections(here.settings.server.max_connections, gave_way)
    servicer = Servicer(here, connections)
    standing = Standing()
    own = grpc.method_handlers_generic_handler(SERVICE, servicer.handlers())
    server.add_generic_rpc_handlers((own, *standing.handlers()))
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError as error:
        raise InputError(
            f"gRPC cannot listen on {address}: is the port taken? Another one: --grpc-port N, or [server] grpc_port"
        ) from error
    await server.start()
    for name in _SERVICES:
        await standing.health.set(name, health_pb2.HealthCheckResponse.SERVING)
    keeping = asyncio.get_running_loop().create_task(connections.keep(bound))
    leaving = asyncio.Event()
    here.leaving.heard_by(leaving.set)
    unhealthy = asyncio.get_running_loop().create_task(_told_of_its_end(standing.health, leaving))
    try:
        yield bound
    finally:
        here.leaving.set()
        here.hub.stop()
        keeping.cancel()
        await asyncio.wait({unhealthy, keeping})
        await servicer.drained(grace_secs)
        await server.stop(0.1)  # those who watch its health stay to the last
        here.leaving.forget(leaving.set)


async def _told_of_its_end(standing: HealthServicer, leaving: asyncio.Event) -> None:
    await leaving.wait()
    await standing.enter_graceful_shutdown()
