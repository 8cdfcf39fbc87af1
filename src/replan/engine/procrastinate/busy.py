"""A worker that computes lives, though a tool that holds the interpreter (the GIL) lets nothing of it run: see `busy_watch`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger("replan.worker")
_PROGRAM = str(Path(__file__).with_name("busy_watch.py"))
_AGAIN_SECS = 60.0
"""So long after a start the program is not started anew."""
_END_SECS = 2.0


class Busy:
    """Gives signs of life to a program beside, which sends heartbeats while none come. Nothing where there is no `/proc`."""

    def __init__(
        self,
        database: Mapping[str, Any],
        statement: str,
        values: Mapping[str, Any],
        *,
        every: float,
        most: float,
    ) -> None:
        """`every`: seconds between two heartbeats. `most`: so long without a sign of life the worker counts as gone, whatever it does."""
        told = {
            "path": sys.path, "database": dict(database), "statement": statement, "values": dict(values),
            "every": every, "most": most,
        }  # fmt: skip
        self._told = json.dumps(told).encode() + b"\n"
        self._every = every
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._sign_at = 0.0

    async def give_signs(self) -> None:
        """In the thread that sends the heartbeats, until it is cancelled."""
        if not sys.platform.startswith("linux") or not sys.executable or getattr(sys, "frozen", False):
            return
        try:
            while True:
                self._give_sign()
                await asyncio.sleep(self._every / 2)
        finally:
            self._end()

    def _give_sign(self) -> None:
        now = time.monotonic()
        if self._sign_at and (still := now - self._sign_at) > 2 * self._every:
            why = "a tool held the interpreter (GIL), or the process was stopped"
            log.warning("nothing of this process ran for %.1f s: %s", still, why)
        self._sign_at = now
        if self._process is not None:
            assert self._process.stdin is not None
            try:
                os.write(self._process.stdin.fileno(), b".")
            except BlockingIOError:
                pass  # it waits for the database
            except OSError:
                self._end()
        if self._process is None and (not self._started_at or now - self._started_at > _AGAIN_SECS):
            self._started_at = now
            with contextlib.suppress(OSError):  # no process can be started now
                self._start()

    def _start(self) -> None:
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        os.write(process.stdin.fileno(), self._told)  # the database's password is in it: seen by nobody else
        os.set_blocking(process.stdin.fileno(), False)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
