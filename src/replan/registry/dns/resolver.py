"""Asks name servers: over TCP, and over UDP where that does not go.

Over UDP some servers tell a few of many records, and not that there are more (Consul's does): each time others.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import struct
from collections.abc import Sequence
from pathlib import Path

from replan.core.words import in_digits
from replan.errors import RegistryUnavailable
from replan.registry.dns.messages import Answer, Malformed, question, read

TRY_SECS = 3.0
_TCP_SECS = 1.0
_MOST_SERVERS = 3
_PORT = 53
_CODES = {
    1: "the question is not understood",
    2: "the server failed",
    3: "there is no such name",
    5: "it refuses",
}
Server = tuple[str, int]


def configured_servers(path: Path = Path("/etc/resolv.conf")) -> list[Server]:
    """The name servers of this machine."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found: list[Server] = []
    for line in lines[:1_000]:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            try:
                ipaddress.ip_address(words[1])
            except ValueError:
                continue
            found.append((words[1], _PORT))
    return found[:_MOST_SERVERS] or [("127.0.0.1", _PORT)]


async def ask(name: str, kind: int, servers: Sequence[Server]) -> Answer:
    """The first usable answer of these servers; `RegistryUnavailable` with what each has said."""
    said: list[str] = []
    for host, port in servers:
        try:
            async with asyncio.timeout(TRY_SECS):
                answer = await _asked(name, kind, host, port)
        except TimeoutError:
            said.append(f"{host}: no answer within {in_digits(TRY_SECS)} s")
        except (OSError, Malformed, asyncio.IncompleteReadError) as error:
            said.append(f"{host}: {error}")
        else:
            if answer.code in (0, 3):  # that there is none is an answer
                return answer
            said.append(f"{host}: {_CODES.get(answer.code, f'code {answer.code}')}")
    raise RegistryUnavailable(f"{name}: {'; '.join(said)}")


async def _asked(name: str, kind: int, host: str, port: int) -> Answer:
    number = secrets.randbelow(65536)
    message = question(number, name, kind)
    with contextlib.suppress(OSError, Malformed, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(_TCP_SECS):
            return await _over_tcp(message, number, name, kind, host, port)
    return await _over_udp(message, number, name, kind, host, port)


async def _over_udp(message: bytes, number: int, name: str, kind: int, host: str, port: int) -> Answer:
    loop = asyncio.get_running_loop()
    transport, waiting = await loop.create_datagram_endpoint(
        lambda: _Waiting(loop.create_future(), number, name, kind), remote_addr=(host, port)
    )
    try:
        transport.sendto(message)
        return await waiting.answer
    finally:
        transport.close()


async def _over_tcp(message: bytes, number: int, name: str, kind: int, host: str, port: int) -> Answer:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(struct.pack(">H", len(message)) + message)
        await writer.drain()
        (size,) = struct.unpack(">H", await reader.readexactly(2))
        return read(await reader.readexactly(size), number, name, kind)
    finally:
        writer.close()


class _Waiting(asyncio.DatagramProtocol):
    """Waits for the answer to one question; what answers none of ours may be anybody's."""

    def __init__(self, answer: asyncio.Future[Answer], number: int, name: str, kind: int) -> None:
        self.answer = answer
        self._asked = number, name, kind

    def datagram_received(self, data: bytes, addr: object) -> None:
        if self.answer.done():
            return
        try:
            self.answer.set_result(read(data, *self._asked))
        except Malformed:
            return

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)
