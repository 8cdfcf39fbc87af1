"""A server's process: its whole tree ends with it, and its stderr is kept for the error message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from typing import cast

from replan.core.secrets import KnownSecrets
from replan.tools import orphans
from replan.tools.mcp.servers import StdioServer

GRACE_SECS = 1.0
"""How long a server may take to end when its stdin is closed, and again when it is told to terminate."""
_STDERR_BYTES = 8192
_CHUNKS = 16
"""Chunks of stdout (at most 256 KiB each) that are held before the pipe is left to fill up."""
_INHERITED = (
    ("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE",
     "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE")
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE",
          "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
)  # fmt: skip
"""What the specification's clients hand on, and what a server needs to reach the network from behind a proxy's CA."""


class ServerProcess(asyncio.SubprocessProtocol):
    """Started by `start`. `read` gives its output piece by piece; `stop` ends it and all that it started."""

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._stderr = bytearray()
        self._chunks: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._ended = False
        self._stopping = False
        self.exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._transport: asyncio.SubprocessTransport

    @classmethod
    async def start(cls, server: StdioServer) -> ServerProcess:
        """Start the program in a session, and so a process group, of its own. Raises OSError."""
        env = {name: value for name in _INHERITED if (value := os.environ.get(name)) is not None}
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: cls(_all_of(server)),
            server.command,
            *server.args,
            env={**env, **server.env},
            cwd=server.cwd,
            start_new_session=True,
        )
        protocol._transport = transport
        orphans.started(transport.get_pid())
        return protocol

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def speaks(self) -> bool:
        """It runs, and has not closed its output."""
        return not self._ended and not self.exited.is_set()

    @property
    def stderr(self) -> str:
        """The last of what it wrote there."""
        return self._secrets.hide(self._stderr.decode("utf-8", "replace")).strip()

    def obituary(self) -> str:
        """How it ended, or that it runs, and its last words."""
        code = self._transport.get_returncode()
        if code is None:
            how = "it is running" if not self._ended else "it closed its output"
        elif code < 0:
            how = f"it was killed by {_signal_name(-code)}"
        else:
            how = f"it ended with exit code {code}"
        return f"{how}; its stderr: {self.stderr[-2000:]}" if self.stderr else how

    async def read(self) -> bytes:
        """The next piece of its stdout; empty when there is no more."""
        while not self._chunks:
            if self._ended:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        if self._paused and len(self._chunks) < _CHUNKS // 2 and not self._ended:
            self._paused = False
            pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(1))
            if pipe is not None:
                pipe.resume_reading()
        return chunk

    async def write(self, data: bytes) -> None:
        """Write to its stdin, waiting while it does not read. `BrokenPipeError` if it never will."""
        pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing() or self.exited.is_set():
            raise BrokenPipeError("the server has ended")
        pipe.write(data)
        await self._writable.wait()

    async def exit_within(self, secs: float) -> bool:
        """Wait until it has ended, that long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                await self.exited.wait()
        return self.exited.is_set()

    async def stop(self) -> None:
        """Close its stdin, then terminate, then kill; whatever of its process group is left is killed at last."""
        if self._stopping:
            return  # its number may be another's by now
        self._stopping = True
        try:
            stdin = self._transport.get_pipe_transport(0)
            if stdin is not None:
                stdin.close()
            if not await self._gone_within(GRACE_SECS):
                self._signal(signal.SIGTERM)
                await self._gone_within(GRACE_SECS)
        finally:
            # Also when it has ended: what it had started would go on without it.
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
            orphans.ended(self.pid)
            self._transport.close()
        await self._gone_within(GRACE_SECS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECS):
                await self._closed.wait()

    async def _gone_within(self, secs: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                # Keep reading: a server that writes on until its end must not be stuck in a full pipe.
                waiting = asyncio.ensure_future(self.exited.wait())
                try:
                    while not waiting.done():
                        self._chunks.clear()
                        self._resume()
                        await asyncio.wait({waiting}, timeout=0.05)
                finally:
                    waiting.cancel()
        return self.exited.is_set()

    def _resume(self) -> None:
        pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(1))
        if self._paused and pipe is not None and not pipe.is_closing():
            self._paused = False
            pipe.resume_reading()

    def _signal(self, number: int) -> None:
        """To the whole group: its id stays taken as long as anybody is in it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            elif not self.exited.is_set():
                self._transport.send_signal(number)

    # ── told by the event loop ────────────────────────────────────────────────

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-_STDERR_BYTES]
            return
        self._chunks.append(data)
        self._arrived.set()
        if len(self._chunks) >= _CHUNKS and not self._paused:
            pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(1))
            if pipe is not None:
                self._paused = True
                pipe.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._end()
        elif fd == 0:
            self._writable.set()

    def process_exited(self) -> None:
        self.exited.set()
        self._writable.set()
        # What it started may hold the pipe open for ever; what it wrote itself is there within a moment.
        asyncio.get_running_loop().call_later(0.2, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _all_of(server: StdioServer) -> KnownSecrets:
    """A program may print its whole environment when it fails: there, all that we have given it is hidden."""
    known = KnownSecrets(server.known)
    for value in server.secrets():
        known.add(value)
    return known
