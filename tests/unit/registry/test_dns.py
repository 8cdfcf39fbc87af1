"""Names as registries: messages of the domain name system, and a server of our own that answers well and badly."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.errors import RegistryUnavailable
from replan.ports import Instance
from replan.registry.dns.messages import AAAA, SRV, A, Answer, Malformed, Service, question, read
from replan.registry.dns.registries import AddressRegistry, SrvRegistry
from replan.registry.dns.resolver import configured_servers

pytestmark = pytest.mark.anyio
NAME = "_llm._tcp.example"


def packed(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def record(owner: bytes, kind: int, ttl: int, data: bytes) -> bytes:
    return owner + struct.pack(">2HIH", kind, 1, ttl, len(data)) + data


def srv(priority: int, weight: int, port: int, target: str, ttl: int = 60) -> bytes:
    data = struct.pack(">3H", priority, weight, port) + packed(target)
    return record(b"\xc0\x0c", SRV, ttl, data)


def answer(asked: bytes, *records: bytes, flags: int = 0x8180, more: tuple[bytes, ...] = ()) -> bytes:
    head = struct.pack(">6H", struct.unpack(">H", asked[:2])[0], flags, 1, len(records), 0, len(more))
    return head + asked[12:] + b"".join(records) + b"".join(more)


def test_what_is_asked_is_read_back() -> None:
    asked = question(7, NAME, SRV)
    target = record(packed("A.example"), 1, 60, socket.inet_aton("10.1.2.3"))
    said = answer(
        asked, srv(1, 2, 8000, "a.example", 30), srv(0, 1, 8001, "b.example"), more=(target, target)
    )
    assert read(said, 7, NAME.upper() + ".", SRV) == Answer(
        0, (Service(1, 2, 8000, "a.example"), Service(0, 1, 8001, "b.example")), 30,
        {"a.example": ("10.1.2.3",)},
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda said: b"\0\1" + said[2:],  # another number
        lambda said: said[:2] + b"\x01\x00" + said[4:],  # no answer
        lambda said: said[:12] + packed("other.example") + said[12 + len(packed(NAME)) :],
        lambda said: said[:-3],
        lambda said: said[:-1] + b"\xc0",
        lambda said: said[:-11] + b"\xc0\xff" + said[-9:],  # a pointer forwards
        lambda said: b"",
    ],
)
def test_what_answers_another_question_or_ends_early_is_no_answer(change: Callable[[bytes], bytes]) -> None:
    said = answer(question(7, NAME, SRV), srv(0, 0, 1, "a.example"))
    with pytest.raises(Malformed):
        read(change(said), 7, NAME, SRV)


def test_a_name_that_points_to_itself_ends() -> None:
    asked = question(7, NAME, SRV)
    at = len(asked) + 12 + 6
    loop = record(b"\xc0\x0c", SRV, 1, struct.pack(">3H", 0, 0, 1) + struct.pack(">H", 0xC000 | at))
    with pytest.raises(Malformed, match="circle"):
        read(answer(asked, loop), 7, NAME, SRV)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_no_bytes_make_it_fail_otherwise(noise: bytes, keep: int) -> None:
    said = answer(question(7, NAME, SRV), srv(0, 0, 1, "a.example"))[: keep + 12] + noise
    with suppress(Malformed):
        read(said, 7, NAME, SRV)


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, "ä.example", "a." * 130])
def test_what_is_no_name_is_told(name: str) -> None:
    with pytest.raises(Malformed):
        question(1, name, SRV)


Say = Callable[[bytes], bytes | None]


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, say: Say) -> None:
        self.say = say

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if (said := self.say(data)) is not None:
            self.transport.sendto(b"noise", addr)  # type: ignore[attr-defined]
            self.transport.sendto(said, addr)  # type: ignore[attr-defined]


@asynccontextmanager
async def served(say: Say, over_tcp: Callable[..., bytes | None] | None = None) -> AsyncIterator[SrvRegistry]:
    loop = asyncio.get_running_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(struct.unpack(">H", await reader.readexactly(2))[0])
        said = (over_tcp or say)(asked) or b""
        if said:
            writer.write(struct.pack(">H", len(said)) + said)
        writer.close()

    tcp = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(say), local_addr=("127.0.0.1", port))
    try:
        yield SrvRegistry([("127.0.0.1", port)], every_secs=0.02)
    finally:
        udp.close()
        tcp.close()
        await tcp.wait_closed()


async def test_records_become_instances_and_are_asked_for_again() -> None:
    turns = [
        [srv(0, 5, 8000, "127.0.0.1"), srv(1, 0, 8001, "127.0.0.2")],
        [srv(0, 5, 8002, "127.0.0.1")],
    ]
    async with served(lambda asked: answer(asked, *turns.pop(0))) as registry:
        first = await registry.look(NAME, None)
        hosts = {(each.host, each.port, each.weight, each.priority) for each in first.instances}
        assert hosts == {("127.0.0.1", 8000, 5, 0), ("127.0.0.2", 8001, 1, 1)}
        second = await registry.look(NAME, 0.001)
        assert second.instances == (Instance("127.0.0.1", 8002, weight=5),)


async def test_over_tcp_all_are_told_and_over_udp_what_there_is_where_nobody_listens_there() -> None:
    async with served(
        lambda asked: answer(asked, srv(0, 0, 7, "127.0.0.1")),
        lambda asked: answer(asked, *(srv(0, 0, port, "127.0.0.1") for port in range(1, 200))),
    ) as registry:
        assert len((await registry.look(NAME, None)).instances) == 199
    for nothing in (None, b"noise"):
        async with served(
            lambda asked: answer(asked, srv(0, 0, 7, "127.0.0.1")), lambda asked, nothing=nothing: nothing
        ) as registry:
            assert [each.port for each in (await registry.look(NAME, None)).instances] == [7]


async def test_a_target_without_an_address_is_asked_for_where_its_record_came_from() -> None:
    target = packed("a.nowhere.invalid")

    def say(asked: bytes) -> bytes:
        if target not in asked:
            return answer(asked, srv(0, 0, 7, "a.nowhere.invalid"))
        is_aaaa = asked[-4:-2] == struct.pack(">H", AAAA)
        return answer(asked) if is_aaaa else answer(asked, record(b"\xc0\x0c", A, 60, bytes([10, 0, 0, 9])))

    async with served(say) as registry:
        assert (await registry.look(NAME, None)).instances == (Instance("10.0.0.9", 7),)


@pytest.mark.parametrize(
    ("flags", "told"), [(0x8182, "the server failed"), (0x8185, "it refuses"), (0x8189, "code 9")]
)
async def test_a_server_that_does_not_say_is_told(flags: int, told: str) -> None:
    async with served(lambda asked: answer(asked, flags=flags)) as registry:
        with pytest.raises(RegistryUnavailable, match=told):
            await registry.look(NAME, None)


async def test_that_there_is_none_is_an_answer_and_so_is_a_service_that_is_not_offered() -> None:
    async with served(lambda asked: answer(asked, flags=0x8183)) as registry:
        assert (await registry.look(NAME, None)).instances == ()
    async with served(lambda asked: answer(asked, srv(0, 0, 0, "."))) as registry:
        assert (await registry.look(NAME, None)).instances == ()


async def test_a_port_that_nobody_listens_at_is_told() -> None:
    async with served(lambda asked: None) as registry:
        pass
    with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1: "):
        await registry.look(NAME, None)


async def test_the_addresses_of_a_name_with_a_port() -> None:
    found = (await AddressRegistry("localhost", 8000).look("", None)).instances
    assert Instance("127.0.0.1", 8000) in found
    with pytest.raises(RegistryUnavailable, match="no-such-host"):
        await AddressRegistry("no-such-host.invalid", 8000).look("", None)


def test_the_name_servers_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# x\nnameserver 10.0.0.1\nsearch a\nnameserver nonsense\nnameserver ::1\n")
    assert configured_servers(file) == [("10.0.0.1", 53), ("::1", 53)]
    assert configured_servers(tmp_path / "none") == [("127.0.0.1", 53)]
