"""Whoever holds connections over gRPC, and asks nothing, shuts out nobody."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import pytest
from access_world import ASKED
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_world import Grpc, serving, task

from replan.config import Settings
from replan.run.access.callers import LOCAL, Caller
from replan.server.auth.credentials import Credentials
from replan.server.auth.refused import Refused
from replan.server.grpc.connections import Connections, Peer, peer_of
from replan.server.grpc.messages import SERVICE, pb

pytestmark = pytest.mark.anyio
MOST = 40
FEW = Settings.model_validate({"server": {"max_connections": MOST}})
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
GOOD = (("authorization", "good"),)


async def by_word(credentials: Credentials) -> Caller:
    if credentials.authorization != "good":
        raise Refused("nobody")
    return LOCAL


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Grpc]:
    async with serving(tmp_path, settings=FEW, authenticate=by_word) as made:
        yield made


@contextlib.contextmanager
def held(address: str, number: int, first: bytes) -> Iterator[list[socket.socket]]:
    host, _, port = address.rpartition(":")
    found = []
    try:
        for _ in range(number):
            one = socket.create_connection((host, int(port)), timeout=10)
            found.append(one)
            one.sendall(first)
        yield found
    finally:
        for one in found:
            one.close()


@contextlib.asynccontextmanager
async def fresh(address: str) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield channel


@pytest.mark.parametrize("first", [b"", PREFACE], ids=["silent", "preface"])
async def test_newcomers_are_let_in_however_many_connections_ask_nothing(
    there: Grpc, first: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "replan.server")
    with held(there.address, 5 * MOST, first) as others:
        await asyncio.to_thread(read_to_its_end, others[0])
        for _ in range(5):
            async with fresh(there.address) as channel:
                await there._replace(channel=channel).call("ListTasks", GOOD, timeout=10)
                health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
                told = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=10)
                assert told.status == health_pb2.HealthCheckResponse.SERVING
    said = [one.message for one in caplog.records if "gave way" in one.message]
    assert said == ["a connection over gRPC on which nothing was asked gave way (from 127.0.0.1)"]


async def test_a_stream_that_is_open_stays_whoever_comes(there: Grpc) -> None:
    method = there.channel.unary_unary(
        f"/{SERVICE}/SubmitTask", pb.SubmitTaskRequest.SerializeToString, pb.Submitted.FromString
    )
    wanted = await method(task(ASKED), metadata=GOOD, timeout=10)
    events = there.call("WatchTask", GOOD, task_id=wanted.task_id)
    following = aiter(events)
    await anext(following)
    calls = there.call("ListTasks", ())  # nobody: its connection is as good as one on which nothing is asked
    assert (await there.refused(calls)).code == "UNAUTHENTICATED"
    with held(there.address, 5 * MOST, PREFACE) as others:
        await asyncio.to_thread(read_to_its_end, others[0])
        async with fresh(there.address) as channel:
            await there._replace(channel=channel).call("CancelTask", GOOD, task_id=wanted.task_id)
        seen = [event.type async for event in following]
    assert seen[-1] == "task_cancelled"


async def test_they_are_kept_within_their_limit_again_once_files_can_be_opened() -> None:
    gave_way: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        with held(f"127.0.0.1:{port}", 3, b"") as others:
            taken = [own.accept()[0] for _ in others]
            connections = Connections(1, gave_way.append)
            with no_more_files():
                keeping = asyncio.create_task(connections.keep(port))
                await asyncio.sleep(0)
                assert not gave_way
            async with asyncio.timeout(10):
                await asyncio.to_thread(read_to_its_end, others[0])
            keeping.cancel()
            for one in taken:
                one.close()


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_that_is_closing_counts_no_more() -> None:
    gave_way: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        with held(f"127.0.0.1:{port}", 3, b"") as others:
            taken = [own.accept()[0] for _ in others]  # and not closed, though the other side is gone
            connections = Connections(2, gave_way.append)
            assert connections.look(port)
            assert not connections.look(port)
            assert len(gave_way) == 1
            for one in taken:
                one.close()


def read_to_its_end(one: socket.socket) -> None:
    while one.recv(4_096):
        pass


@pytest.mark.parametrize(
    ("said", "peer"),
    [
        ("ipv4:127.0.0.1:50000", Peer("127.0.0.1", 50_000)),
        ("ipv6:%5B::1%5D:50000", Peer("::1", 50_000)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:7", Peer("10.0.0.1", 7)),
        ("unix:/tmp/x", None),
    ],
)
def test_a_peer_is_known_in_either_form(said: str, peer: Peer | None) -> None:
    assert peer_of(said) == peer
