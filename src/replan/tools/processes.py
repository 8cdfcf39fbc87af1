"""Programs that are run to their end: in time, with bounded output, and with nothing left of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.tools import orphans
from replan.tools.tee import Tee

FLOOD_BYTES = 64 * 2**20
"""A program that writes more than that is stopped."""
_TERM_SECS = 0.3
"""How long a program that is stopped may tidy up; below the second that a stopped call has."""
_LINGER_SECS = 0.5
"""How long its output is read on once a program has ended, if what it started still holds the pipe."""
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT")


class Captured(NamedTuple):
    """What a program wrote: its beginning and end, where it was more than was asked for."""

    text: str
    size: int
    """Bytes in all."""
    cut: bool


class Finished(NamedTuple):
    exit_code: int
    """As in Python: negative if a signal ended it."""
    stdout: Captured
    stderr: Captured
    taken: Any = None
    """What `tee` has made of its whole stdout."""


def plain_environment(names: Sequence[str] = ()) -> dict[str, str]:
    """The variables that programs need, and those named: no keys and tokens that others may hold."""
    return {name: os.environ[name] for name in (*_PLAIN, *names) if name in os.environ}


class _Ends:
    """The first and the last half of `most` bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half + 65536:
            del self._tail[: -self._half]

    def captured(self) -> Captured:
        tail = bytes(self._tail[-self._half :]) if self._half else b""
        left_out = self.size - len(self._head) - len(tail)
        between = f"\n…({left_out:,} bytes left out)…\n".encode() if left_out else b""
        text = (bytes(self._head) + between + tail).decode("utf-8", "replace")
        return Captured(text, self.size, left_out > 0)


async def run_program(
    command: Sequence[str],
    *,
    what: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_secs: float = 60.0,
    max_output_bytes: int = 100_000,
    pass_fds: Sequence[int] = (),
    watch: Callable[[int], Coroutine[Any, Any, str]] | None = None,
    tee: Tee | None = None,
    flood_bytes: int = FLOOD_BYTES,
) -> Finished:
    """Run a program without any shell, in a process group of its own, and wait for its end.

    The group is stopped (SIGTERM, then SIGKILL after 0.3 s) when the time is over, when the call is cancelled and
    when the program has ended but left others behind, and also when this process is killed meanwhile
    (`tools.orphans`); what made itself a session of its own escapes that.
    `what` names the call in errors. `watch` is given the number of its process, and says why it has to be stopped as soon
    as it has to be. `tee` is given all of its stdout, which may then be of `flood_bytes`. Raises `ToolCallError`: kind `tool` and
    surely not happened if it cannot be started, `timeout`, or `output` for more than that (`FLOOD_BYTES` of stderr).
    """
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Watching(loop, max_output_bytes, tee, flood_bytes),
            *command,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    )
    try:
        transport, watching = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Stopped while it starts: asyncio would kill it alone, and wait for those that it has started already.
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):  # a second time: nobody else could stop it
                await asyncio.wait({starting})
        with contextlib.suppress(OSError, ValueError):
            await _stop(*starting.result())
        raise
    except (OSError, ValueError) as error:
        raise ToolCallError(f"{what} cannot be started: {error}", happened="no") from error
    orphans.started(transport.get_pid())
    taken = None
    watcher = None if watch is None else loop.create_task(watch(transport.get_pid()))
    try:
        _feed(transport, stdin)
        async with asyncio.timeout(timeout_secs):
            ends: set[asyncio.Future[Any]] = {watching.exited, watching.flooded}
            if tee is not None:
                ends.add(tee.failed)
            await asyncio.wait(
                ends if watcher is None else ends | {watcher}, return_when=asyncio.FIRST_COMPLETED
            )
            if watcher is not None and watcher.done():
                raise ToolCallError(f"{what} was stopped: {watcher.result()}", happened="unknown")
            await watching.read_on()
            if tee is not None and not watching.flooded.done():
                taken = await tee.result()
    except TimeoutError as error:
        text = f"{what} had not ended after {in_digits(timeout_secs)} seconds and was stopped{watching.last_words()}"
        raise ToolCallError(text, kind="timeout", happened="unknown") from error
    finally:
        if watcher is not None:
            watcher.cancel()
        try:
            await _stop(transport, watching)
        finally:
            if tee is not None:
                await tee.give_up()
    if watching.flooded.done():
        text = f"{what} wrote more than {watching.most:,} bytes and was stopped; make it write less"
        raise ToolCallError(text, kind="output", happened="unknown")
    code = transport.get_returncode()
    stdout, stderr = (ends.captured() for ends in watching.ends)
    return Finished(-signal.SIGKILL if code is None else code, stdout, stderr, taken)


class _Watching(asyncio.SubprocessProtocol):
    """What a process writes, and when it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, tee: Tee | None, flood_bytes: int) -> None:
        self._tee = tee
        self._most = (flood_bytes, FLOOD_BYTES)
        self.most = FLOOD_BYTES
        """Bytes of the stream that was too much."""
        self.ends = (_Ends(most), _Ends(most))
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.flooded: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        ends = self.ends[fd - 1]
        ends.add(data)
        if ends.size > self._most[fd - 1]:
            self.most = self._most[fd - 1]
            _done(self.flooded)
        elif fd == 1 and self._tee is not None:
            self._tee.add(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        if self._tee is not None:
            self._tee.reads(transport.get_pipe_transport(1))

    async def read_on(self) -> None:
        """Once it has ended: until its pipes are closed, or nothing has come for a while."""
        waits = True
        while waits and not (self.closed.done() or self.flooded.done()):
            waits = self._tee is not None and self._tee.paused and not self._tee.failed.done()
            await asyncio.wait(
                {self.closed, self.flooded}, timeout=_LINGER_SECS, return_when=asyncio.FIRST_COMPLETED
            )

    def process_exited(self) -> None:
        _done(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and its pipes are closed."""
        _done(self.closed)

    def last_words(self) -> str:
        said = (self.ends[1].captured().text or self.ends[0].captured().text).strip()[-500:]
        return f"; the last that it wrote: {said}" if said else "; it had written nothing"


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _feed(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    """Give it its input; it need not read it."""
    pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))  # of other loops it is no subclass
    if data:
        pipe.write(data)
    pipe.close()  # when all is written


async def _stop(transport: asyncio.SubprocessTransport, watching: _Watching) -> None:
    """End the whole group, also of a program that has ended itself."""
    group = transport.get_pid()
    try:
        if not watching.exited.done() and not watching.flooded.done() and _signal(group, signal.SIGTERM):
            await asyncio.wait({watching.exited}, timeout=_TERM_SECS)
        _signal(group, signal.SIGKILL)
        if not watching.exited.done():
            await asyncio.wait({watching.exited}, timeout=_TERM_SECS)
    except asyncio.CancelledError:  # a second time, in the middle of this
        _signal(group, signal.SIGKILL)
        await asyncio.wait({watching.exited}, timeout=_TERM_SECS)
        raise
    finally:
        orphans.ended(group)
        transport.close()  # what escaped may hold the other ends of the pipes for ever
    if watching.exited.done():
        await asyncio.wait({watching.closed}, timeout=_TERM_SECS)


def _signal(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
