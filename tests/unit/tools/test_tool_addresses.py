"""Which addresses tools may reach, and that a connection goes to the address that was checked."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import ipaddress
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replan.core.failures.faults import classify, may_retry
from replan.core.types import ToolSpec
from replan.errors import InputError, ToolCallError
from replan.tools.network.addresses import AddressRules
from replan.tools.network.body import read_limited
from replan.tools.network.client import guarded_client

PUBLIC = AddressRules()
PRIVATE = AddressRules(allow_private=True)


def why(address: str, rules: AddressRules = PUBLIC, host: str = "a.example", port: int = 80) -> str | None:
    return rules.refusal_of_address(ipaddress.ip_address(address), host, port)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"],
)
def test_public_addresses_may_be_reached(address: str) -> None:
    assert why(address) is None
    assert why(address, PRIVATE) is None


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "carrier"),
        ("fc00::1", "unique local"),
        ("fd12:3456::1", "unique local"),
        ("fec0::1", "site local"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.1.2.3", "private"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:7f00:1::", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("2606:4700::5efe:10.0.0.1", "private"),
    ],
)
def test_private_addresses_have_to_be_allowed(address: str, reason: str) -> None:
    assert reason in (why(address) or "")
    assert why(address, PRIVATE) is None
    assert why(address, AddressRules(allow_hosts=("a.example",))) is None
    assert why(address, AddressRules(allow_hosts=("a.example:81",))) is not None


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("::ffff:169.254.169.254", "metadata"),
        ("64:ff9b::169.254.169.254", "metadata"),
        ("2002:a9fe:a9fe::", "metadata"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("255.255.255.255", "reserved"),
        ("240.0.0.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("192.0.2.1", "reserved"),
        ("203.0.113.9", "reserved"),
        ("2001:db8::1", "reserved"),
        ("192.88.99.1", "relay"),
        ("64:ff9b:1::1", "NAT64"),
    ],
)
def test_some_addresses_are_refused_unless_they_themselves_are_allowed(address: str, reason: str) -> None:
    assert reason in (why(address) or "")
    assert why(address, PRIVATE) is not None
    assert why(address, AddressRules(allow_hosts=("a.example",))) is not None
    width = "32" if ipaddress.ip_address(address).version == 4 else "128"
    assert why(address, AddressRules(allow_hosts=(f"{address}/{width}",))) is None
    assert why(address, AddressRules(allow_hosts=(address,))) is None


ADDRESSES = st.one_of(
    st.ip_addresses(),
    st.integers(0, 2**32 - 1).map(lambda n: ipaddress.IPv6Address((0xFFFF << 32) | n)),
    st.integers(0, 2**32 - 1).map(lambda n: ipaddress.IPv6Address((0x64FF9B << 96) | n)),
    st.integers(0, 2**32 - 1).map(lambda n: ipaddress.IPv6Address((0x2002 << 112) | (n << 80))),
)


@given(ADDRESSES)
@example(ipaddress.ip_address("2001::1"))
def test_every_address_that_is_not_global_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if not address.is_global or (mapped is not None and not mapped.is_global):
        assert why(str(address)) is not None
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        assert why(str(address)) is not None


@pytest.mark.parametrize(
    "host",
    [
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "0x7f000001",
        "8.8.2056",
        "127.0.0.1.",
        "1.2.3.4.5",
        "0x",
    ],
)
def test_unusual_ways_to_write_an_address_are_refused(host: str) -> None:
    found = PRIVATE.refusal_of_name(host, 80)
    assert host == "127.0.0.1." or (found is not None and "unusual" in found)


@pytest.mark.parametrize("host", ["metadata.google.internal", "METADATA.google.internal.", "metadata"])
def test_names_of_metadata_services_are_refused(host: str) -> None:
    assert "metadata" in (PRIVATE.refusal_of_name(host, 80) or "")
    assert AddressRules(allow_hosts=(host,)).refusal_of_name(host, 80) is None


@pytest.mark.parametrize("host", ["example.org", "8.8.8.8", "xn--bcher-kva.example", "a1", "0x7f.example"])
def test_usual_names_may_be_looked_up(host: str) -> None:
    assert PUBLIC.refusal_of_name(host, 80) is None


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "http://a.example",
        "a.example/x",
        "10.0.0.1/8",
        "a b",
        "a:0",
        "a:70000",
        "[::1",
        "2130706433",
        "[a]:1",
    ],
)
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(InputError, match="right are a name"):
        AddressRules(allow_hosts=(entry,))


def test_a_port_limits_what_an_entry_allows() -> None:
    rules = AddressRules(allow_hosts=("127.0.0.1:8080", "[::1]:8081", "10.0.0.0/8"))
    assert why("127.0.0.1", rules, port=8080) is None
    assert why("127.0.0.1", rules, port=8081) is not None
    assert why("::1", rules, port=8081) is None
    assert why("10.9.9.9", rules, port=1) is None


pytestmark = pytest.mark.anyio

Reply = Callable[[str, dict[str, str]], bytes]


@contextlib.asynccontextmanager
async def served(
    reply: Reply, host: str = "127.0.0.1", secure: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that gives what `reply(path, headers)` says; its port, and the paths that were asked for."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            seen.append(lines[0].split()[1])
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            writer.write(reply(seen[-1], headers))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=secure)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def hello(path: str, headers: dict[str, str]) -> bytes:
    return answer(headers["host"].encode())


def known(**names: list[str]) -> Callable[[str, int], object]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if host.split(".")[0] not in names:
            raise OSError("no such name")
        return names[host.split(".")[0]]

    return resolve


async def test_a_private_address_is_refused_and_the_message_says_how_to_allow_it() -> None:
    async with served(hello) as (port, seen), guarded_client() as client:
        for url in (
            f"http://127.0.0.1:{port}/",
            f"http://localhost:{port}/",
            f"http://[::ffff:127.0.0.1]:{port}/",
            f"http://2130706433:{port}/",
            f"http://0x7f.1:{port}/",
            f"http://127。0。0。1:{port}/",
        ):
            with pytest.raises(ToolCallError, match="allow_hosts") as caught:
                await client.get(url)
            assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
            assert not may_retry(classify(caught.value), ToolSpec(id="x", effect="reads"))
        assert seen == []


async def test_what_is_allowed_is_reached() -> None:
    async with served(hello) as (port, _):
        rules = AddressRules(allow_hosts=(f"127.0.0.1:{port}",))
        async with guarded_client(rules) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == f"127.0.0.1:{port}"


async def test_a_redirect_to_a_refused_address_is_not_followed() -> None:
    async with served(hello) as (inner, seen):
        moved = answer(b"", f"Location: http://127.0.0.2:{inner}/secret", status="307 Moved")
        async with served(lambda path, headers: moved) as (port, _):
            rules = AddressRules(allow_hosts=(f"127.0.0.1:{port}",))
            async with guarded_client(rules, follow_redirects=True) as client:
                with pytest.raises(ToolCallError, match=r"redirects.*127\.0\.0\.2.*loopback") as caught:
                    await client.post(f"http://127.0.0.1:{port}/", content=b"x")
        assert (caught.value.kind, caught.value.happened) == ("parameter", "unknown")
        assert seen == []


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "file:///etc/passwd", "unix:///run/x.sock", "gopher://a/"]
)
async def test_other_schemes_are_refused(url: str) -> None:
    async with guarded_client(PRIVATE) as client:
        with pytest.raises(ToolCallError, match=r"scheme|names no host"):
            await client.get(url)


async def test_a_name_that_changes_its_address_is_looked_up_once_and_checked_where_it_is_used() -> None:
    async with served(hello) as (port, seen):
        answers = [["127.0.0.9"], ["127.0.0.1"]]
        asked: list[str] = []

        async def rebinding(host: str, port: int) -> Sequence[str]:
            asked.append(host)
            return answers[len(asked) - 1]

        rules = AddressRules(allow_hosts=("127.0.0.9",))
        async with guarded_client(rules, resolve=rebinding) as client:
            with pytest.raises(httpx2.ConnectError):  # there is nobody at that address
                await client.get(f"http://rebind.example:{port}/")
            assert asked == ["rebind.example"]
            with pytest.raises(ToolCallError, match="loopback"):
                await client.get(f"http://rebind.example:{port}/")
        assert seen == []


async def test_only_allowed_addresses_of_a_name_are_tried_and_the_name_is_sent() -> None:
    async with served(hello, "127.0.0.3") as (port, _):
        rules = AddressRules(allow_hosts=("127.0.0.3",))
        resolve = known(both=["127.0.0.1", "10.0.0.1", "127.0.0.3"])
        async with guarded_client(rules, resolve=resolve) as client:  # type: ignore[arg-type]
            assert (await client.get(f"http://both.example:{port}/")).text == f"both.example:{port}"


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with served(hello, "127.0.0.3") as (port, _):
        resolve = known(two=["127.0.0.4", "127.0.0.3"])
        async with guarded_client(PRIVATE, resolve=resolve) as client:  # type: ignore[arg-type]
            assert (await client.get(f"http://two.example:{port}/")).status_code == 200


async def test_an_unknown_name_and_a_closed_port_are_errors_of_httpx2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with guarded_client(PRIVATE, resolve=known()) as client:  # type: ignore[arg-type]
            with pytest.raises(httpx2.ConnectError, match="no such name") as caught:
                await client.get("http://nowhere.example/")
            assert classify(caught.value).kind == "refused"
            with pytest.raises(httpx2.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/")


async def test_a_slow_look_up_ends_in_time() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with guarded_client(timeout=0.05, resolve=never) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.get("http://slow.example/")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(hello) as (proxy, seen), served(hello) as (port, _):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy}")
        async with guarded_client(PRIVATE) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == f"127.0.0.1:{port}"
        assert seen == []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A folder with `cert.pem` and `key.pem` for good.example."""
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    made += ["-days", "2", "-subj", "/CN=good.example", "-addext", "subjectAltName=DNS:good.example"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with the program openssl")
async def test_a_certificate_is_verified_against_the_name_and_not_the_address(certificate: Path) -> None:
    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    trusted = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    resolve = known(good=["127.0.0.1"], other=["127.0.0.1"])
    async with (
        served(hello, secure=secure) as (port, _),
        guarded_client(PRIVATE, resolve=resolve, verify=trusted) as client,  # type: ignore[arg-type]
    ):
        assert (await client.get(f"https://good.example:{port}/")).text == f"good.example:{port}"
        for host in ("other.example", "127.0.0.1"):
            with pytest.raises(httpx2.ConnectError, match="certificate"):
                await client.get(f"https://{host}:{port}/")


async def test_no_cookie_of_one_answer_goes_with_another_request() -> None:
    seen: list[str | None] = []

    def reply(path: str, headers: dict[str, str]) -> bytes:
        seen.append(headers.get("cookie"))
        return answer(b"", "Set-Cookie: session=1; Path=/")

    async with served(reply) as (port, _), guarded_client(PRIVATE) as client:
        for _ in range(2):
            await client.get(f"http://127.0.0.1:{port}/")
    assert seen == [None, None]


@functools.cache
def bomb() -> bytes:
    """Made where it is used: 200 MB take a second, and every worker of the suite collects this file."""
    return gzip.compress(b"\0" * 200_000_000)


@pytest.mark.parametrize(
    ("made", "headers", "large"),
    [
        pytest.param(lambda: b"x" * 1000, (), False, id="at the limit"),
        pytest.param(lambda: b"x" * 1001, (), True, id="above"),
        pytest.param(
            lambda: gzip.compress(b"x" * 1000), ("Content-Encoding: gzip",), False, id="gzip at the limit"
        ),
        pytest.param(bomb, ("Content-Encoding: gzip",), True, id="gzip bomb"),
        pytest.param(lambda: gzip.compress(bomb()), ("Content-Encoding: gzip, gzip",), True, id="twice"),
        pytest.param(
            lambda: zlib.compress(b"\0" * 2000), ("Content-Encoding: deflate",), True, id="deflate bomb"
        ),
    ],
)
async def test_an_answer_is_read_up_to_its_limit(
    made: Callable[[], bytes], headers: tuple[str, ...], large: bool
) -> None:
    body = made()
    async with (
        served(lambda path, _: answer(body, *headers)) as (port, _),
        guarded_client(PRIVATE) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/") as response,
    ):
        if not large:
            assert await read_limited(response, 1000, "x") == b"x" * 1000
            return
        with pytest.raises(ToolCallError, match="larger than 1,000 bytes") as caught:
            await read_limited(response, 1000, "x")
        assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(gzip.compress(b"\0" * 20_000_000), ("Content-Encoding: gzip",), id="out of a few bytes"),
        pytest.param(b"x" * 20_000_000, (), id="as it is"),
    ],
)
async def test_a_large_answer_is_read_in_many_turns_of_the_event_loop(
    body: bytes, headers: tuple[str, ...]
) -> None:
    turns, reading = 0, True

    async def count() -> None:
        nonlocal turns
        while reading:
            turns += 1
            await asyncio.sleep(0)

    async with (
        served(lambda path, _: answer(body, *headers)) as (port, _),
        guarded_client(PRIVATE) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/") as response,
    ):
        counting = asyncio.ensure_future(count())
        assert len(await read_limited(response, 20_000_000, "x")) == 20_000_000
        reading = False
        await counting
    assert turns >= 15, "a piece is a megabyte at most"


async def test_an_answer_that_is_not_compressed_as_it_says_is_an_error_of_output() -> None:
    async with (
        served(lambda path, _: answer(b"not gzip", "Content-Encoding: gzip")) as (port, _),
        guarded_client(PRIVATE) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/") as response,
    ):
        with pytest.raises(ToolCallError, match="not compressed as it says"):
            await read_limited(response, 1000, "x")


async def test_an_answer_that_is_cut_off_is_a_lost_connection() -> None:
    cut = answer(b"x" * 100)[:-50]
    async with (
        served(lambda path, _: cut) as (port, _),
        guarded_client(PRIVATE) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/") as response,
    ):
        with pytest.raises(httpx2.RemoteProtocolError) as caught:
            await read_limited(response, 1000, "x")
    assert classify(caught.value).kind == "connection_lost"
