"""The tool server as a real process, as `replan tools serve` starts it, from one that has its imports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import warm_command

TOKEN = "a-token-of-the-tests"

TOOLS = '''
import asyncio, os, time
from pathlib import Path
from replan import tool
from replan.tools import Progress, ToolContext

FOLDER = Path(os.environ["REMOTE_TEST_FOLDER"])


def note(name: str) -> None:
    """One line a time, written at once, so that a killed process has told it."""
    with open(FOLDER / name, "a", buffering=1) as file:
        file.write("x\\n")


@tool(effect="reads")
async def echo(value: object) -> object:
    """Give the value back."""
    return value


@tool
async def effect(name: str) -> dict[str, int]:
    """Leave a trace, once a call."""
    note(name)
    return {"done": 1}


@tool
async def brief_effect(name: str) -> dict[str, int]:
    """Leave a trace, and take a moment."""
    note(name)
    await asyncio.sleep(0.03)
    return {"done": 1}


@tool
async def slow_effect(name: str) -> dict[str, int]:
    """Leave a trace, then wait until the file `go` is there."""
    note(name)
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)
    return {"done": 1}


@tool(effect="repeatable")
async def slow_repeatable(name: str) -> dict[str, int]:
    """As slow_effect, but calling it again does no harm."""
    note(name)
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)
    return {"done": 1}


@tool
async def hang(name: str) -> None:
    """Leave a trace, and wait for ever; another one when it is cancelled."""
    note(name)
    try:
        await asyncio.Event().wait()
    finally:
        note(name + "-cancelled")


@tool(effect="reads")
async def large(size: int) -> str:
    """A text of that size."""
    return "x" * size


@tool
async def leave(name: str) -> None:
    """Leave a trace, and kill the process in the middle of the call."""
    note(name)
    os.kill(os.getpid(), 9)
'''


class Process:
    """A server process; `url` while it runs. Started again, it listens where it did before."""

    def __init__(self, folder: Path, protocol: str, *more: str, tools: str = TOOLS) -> None:
        self.folder = folder
        self.protocol = protocol
        self.url = ""
        self._more = more
        self._port = 0
        self.token = TOKEN
        self.tools = folder / "remote_tools.py"
        self.tools.write_text(tools, encoding="utf-8")
        self._process: warm_command.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        if self._process is not None:
            await self.kill()
        ports = ["--port", str(self._port)]
        if self.protocol == "grpc":
            ports = ["--port", "-1", "--grpc-port", str(self._port)]
        command = [
            "tools",
            "serve",
            str(self.tools),
            "--json",
            "--token-env",
            "TEST_TOKEN",
        ]
        keys = [] if "--keys" in self._more else ["--keys", str(self.folder / "keys.db")]
        env = {**os.environ, "TEST_TOKEN": self.token, "REMOTE_TEST_FOLDER": str(self.folder)}
        arguments = (*command, *ports, *keys, *self._more)
        self._process = await asyncio.to_thread(warm_command.Process, arguments, Path.cwd(), env, apart=False)
        told: dict[str, Any] = json.loads(await asyncio.to_thread(self._process.stdout.readline))
        (self.url,) = told["urls"]
        self._port = int(self.url.rpartition(":")[2])

    async def kill(self) -> None:
        """SIGKILL."""
        await self.end(signal.SIGKILL)

    async def end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        await asyncio.to_thread(self._process.communicate, 60)
        return self._process.wait()

    def traces(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    async def saw(self, name: str, times: int = 1) -> None:
        """Wait until the tools have left so many traces."""
        async with asyncio.timeout(30):
            while self.traces(name) < times:  # noqa: ASYNC110 - a file of another process: there is nothing to wait on
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def process(folder: Path, protocol: str, *more: str, tools: str = TOOLS) -> AsyncIterator[Process]:
    made = Process(folder, protocol, *more, tools=tools)
    await made.start()
    try:
        yield made
    finally:
        await made.kill()


class Proxy:
    """A TCP relay whose connections the test can cut, or that swallows what comes."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset every connection that there is."""
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        self._writers -= {writer, back}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()
