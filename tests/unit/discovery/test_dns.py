"""Names as registries: messages of the domain name system, and a server of our own that answers well and badly."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from listening import listening
from replan.discovery.balance import Balance
from replan.discovery.discovered import Discovered
from replan.discovery.dns.registries import AddressRegistry, SrvRegistry
from replan.discovery.dns.resolver import problem_of_name
from replan.errors import RegistryUnavailable
from replan.ports import Instance

pytestmark = pytest.mark.anyio
NAME = "_llm._tcp.example"
A, AAAA, SRV = 1, 28, 33


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


@pytest.mark.parametrize("name", ["", ".", "a..b", "x" * 64, "ä.example", "a." * 130])
def test_what_is_no_name_is_told(name: str) -> None:
    assert "is no name" in problem_of_name(name) or "beyond ASCII" in problem_of_name(name)


def test_a_name_is_none_that_is_wrong() -> None:
    assert not problem_of_name(NAME)
    assert not problem_of_name(f"{NAME}.")


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
async def served(
    say: Say, over_tcp: Callable[..., bytes | None] | None = None, **limits: float
) -> AsyncIterator[SrvRegistry]:
    loop = asyncio.get_running_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(struct.unpack(">H", await reader.readexactly(2))[0])
        said = (over_tcp or say)(asked) or b""
        if said:
            writer.write(struct.pack(">H", len(said)) + said)
        writer.close()

    async with listening(connected) as port:
        udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(say), local_addr=("127.0.0.1", port))
        try:
            yield SrvRegistry([("127.0.0.1", port)], every_secs=0.02, **limits)
        finally:
            udp.close()


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


async def test_addresses_that_are_sent_along_are_taken_and_targets_are_the_same_in_any_case() -> None:
    def say(asked: bytes) -> bytes | None:
        if struct.unpack(">H", asked[-4:-2])[0] != SRV:
            return None
        along = [record(packed("A.nowhere.invalid"), A, 60, bytes([10, 0, 0, last])) for last in (8, 9)]
        return answer(asked, srv(0, 0, 7, "a.Nowhere.invalid"), more=tuple(along))

    async with served(say) as registry:
        hosts = [(each.host, each.port) for each in (await registry.look(NAME, None)).instances]
        assert hosts == [("10.0.0.8", 7), ("10.0.0.9", 7)]


async def test_records_behind_another_name_for_it_are_found() -> None:
    def say(asked: bytes) -> bytes:
        alias = record(b"\xc0\x0c", 5, 60, packed("other.example"))
        data = struct.pack(">3H", 0, 0, 7) + packed("127.0.0.1")
        return answer(asked, alias, record(packed("other.example"), SRV, 60, data))

    async with served(say) as registry:
        assert [each.port for each in (await registry.look(NAME, None)).instances] == [7]


async def test_targets_of_which_nobody_tells_hold_up_no_others() -> None:
    good = packed("good.nowhere.invalid")

    def say(asked: bytes) -> bytes | None:
        if struct.unpack(">H", asked[-4:-2])[0] == SRV:
            dead = [srv(0, 0, 1, f"dead{at}.nowhere.invalid") for at in range(40)]
            return answer(asked, *dead, srv(0, 0, 7, "good.nowhere.invalid"))
        if good not in asked:
            return None
        is_aaaa = asked[-4:-2] == struct.pack(">H", AAAA)
        return answer(asked) if is_aaaa else answer(asked, record(b"\xc0\x0c", A, 60, bytes([10, 0, 0, 9])))

    async with served(say, targets_secs=0.5) as registry, asyncio.timeout(5):
        found = await registry.look(NAME, None)
        assert found.instances == (Instance("10.0.0.9", 7),)
        assert len(found.odd) == 40


async def test_a_server_may_be_named_by_its_host() -> None:
    async with served(lambda asked: answer(asked, srv(0, 0, 7, "127.0.0.1"))) as served_here:
        port = int(served_here.name.rpartition(":")[2])
        by_name = await SrvRegistry([("localhost", port)]).look(NAME, None)
        assert [each.port for each in by_name.instances] == [7]


@pytest.mark.parametrize(
    ("flags", "told"), [(0x8182, "the server failed"), (0x8185, "it refuses"), (0x8189, "it answers NOTAUTH")]
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
    with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1: .*no answer over UDP within 3 s"):
        await registry.look(NAME, None)


async def test_the_addresses_of_a_name_with_a_port() -> None:
    found = (await AddressRegistry("localhost", 8000).look("", None)).instances
    assert Instance("127.0.0.1", 8000) in found
    with pytest.raises(RegistryUnavailable, match="no-such-host"):
        await AddressRegistry("no-such-host.invalid", 8000).look("", None)


async def test_of_an_answer_that_is_cut_off_what_there_is_is_taken_where_nothing_comes_over_tcp() -> None:
    def over_udp(asked: bytes) -> bytes:
        return answer(asked, srv(0, 0, 7, "127.0.0.1"), flags=0x8380)

    async with served(over_udp, lambda asked: None) as registry:
        look = await registry.look(NAME, None)
        assert [each.port for each in look.instances] == [7]
        assert "cut off" in str(look.odd)
    async with served(over_udp, lambda asked: answer(asked, srv(0, 0, 8, "127.0.0.1"))) as registry:
        look = await registry.look(NAME, None)
        assert ([each.port for each in look.instances], look.odd) == ([8], ())
    async with served(lambda asked: answer(asked, flags=0x8380), lambda asked: None) as registry:
        with pytest.raises(RegistryUnavailable):
            await registry.look(NAME, None)


async def test_a_long_list_that_may_change_at_any_time_is_not_read_all_the_time() -> None:
    def over_tcp(asked: bytes) -> bytes:
        return answer(asked, *(srv(0, 0, port, "127.0.0.1", ttl=0) for port in range(1, 1_001)))

    async with served(over_tcp, over_tcp) as registry:
        assert (await registry.look(NAME, None)).mark == 5.0


@pytest.mark.parametrize(
    "say",
    [
        lambda asked: (
            answer(asked, srv(0, 0, 5, NAME)) if asked[-4:-2] == struct.pack(">H", SRV) else answer(asked)
        ),
        lambda asked: answer(asked, record(b"\xc0\x0c", 5, 5, packed(NAME))),
        lambda asked: answer(asked, srv(0, 0, 0, "127.0.0.1")),
        lambda asked: answer(asked, srv(0, 0, 5, "")),
        lambda asked: asked[:2] + b"\x81\x80" + b"\xc0" * 200,
    ],
    ids=["itself as target", "itself as alias", "port 0", "not offered", "no message"],
)
async def test_a_name_that_leads_nowhere_is_no_instance_and_is_looked_for_again(say: Say) -> None:
    async with served(say) as registry:
        looked = Discovered(registry, NAME, scheme="http", balance=Balance())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(4):
                await looked.begin()
        assert (looked.state().instances, list(looked.known())) == (0, [])
        assert looked.state().problem
        await looked.aclose()
