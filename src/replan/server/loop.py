"""The event loop of the service: uvloop's, which starts programs as asyncio's own loop does.

uvloop forks by itself and runs Python in the child before the program begins, in a process of many threads: what is registered to be
done after a fork is done there, and what that closes or waits for is the program's loss. `subprocess` leaves that out, and says
surely whether the program has begun.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Callable
from typing import Any

import uvloop

UNKNOWN = 255
"""The exit code of a program that somebody else has waited for."""


class ServiceLoop(uvloop.Loop):
    """`uvloop.Loop` with the programs of asyncio."""

    async def subprocess_exec(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.SubprocessProtocol],
        program: Any,
        *args: Any,
        **options: Any,
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        return await self._started(protocol_factory, (program, *args), shell=False, **options)

    async def subprocess_shell(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.SubprocessProtocol], cmd: str | bytes, **options: Any
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        return await self._started(protocol_factory, cmd, shell=True, **options)

    async def _started(
        self,
        protocol_factory: Callable[[], asyncio.SubprocessProtocol],
        command: Any,
        *,
        shell: bool,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        bufsize: int = 0,
        **options: Any,
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        for name in ("universal_newlines", "encoding", "errors", "text"):
            if options.pop(name, None):
                raise ValueError(f"{name}: programs are read and written in bytes here")
        protocol, connected = protocol_factory(), self.create_future()
        transport = _Program(
            self, protocol, command, shell, stdin, stdout, stderr, bufsize, waiter=connected, **options
        )
        _tell_at_its_end(self, transport)
        try:
            await connected
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport, protocol


class _Program(BaseSubprocessTransport):
    """asyncio's transport, over what `subprocess` has started."""

    _proc: subprocess.Popen[bytes]

    def _start(
        self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **options: Any
    ) -> None:
        self._proc = subprocess.Popen(
            args, shell=shell, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=bufsize, **options
        )  # fmt: skip

    def ended(self, code: int | None) -> None:
        """It has, with that exit code; None: somebody else was told."""
        known = self._proc.returncode if code is None else code
        self._process_exited(UNKNOWN if known is None else known)


def _tell_at_its_end(loop: asyncio.AbstractEventLoop, program: _Program) -> None:
    """By the kernel's word where it has one for the loop, else by a thread that waits."""
    pid = program.get_pid()
    assert pid is not None
    try:
        watched = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old one, or not allowed
        threading.Thread(
            target=_wait_beside, args=(loop, program, pid), name="replan-program", daemon=True
        ).start()
        return

    def readable() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        program.ended(_code_of(pid))

    loop.add_reader(watched, readable)


def _wait_beside(loop: asyncio.AbstractEventLoop, program: _Program, pid: int) -> None:
    code = _code_of(pid)
    if not loop.is_closed():
        loop.call_soon_threadsafe(program.ended, code)


def _code_of(pid: int) -> int | None:
    """Waits for its end; None if there is nothing to wait for any more."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None
