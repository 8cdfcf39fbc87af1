"""The kit's own machinery as a kit: tools that are Python code and programs in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tool_kit import WAIT_SECS, Kit

from replan.tools import ToolContext, tool
from replan.tools.kit.python_tools import Limits, run_code
from replan.tools.kit.source import KitSource
from replan.tools.processes import run_program

_LIMITS = Limits(timeout_secs=60)


class Programs(Kit):
    """`wait` is a program; that it runs and ended is seen from outside."""

    turns = 10_000_000
    """A program that is stopped has 0.3 seconds to tidy up, which no number of turns tells."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._pid = folder / "pid"
        arrived = [0]
        everyone = asyncio.Event()

        async def python(code: str, given: Any) -> Any:
            said, _, _ = await run_code(code, given, limits=_LIMITS)
            return said["result"]

        @tool(effect="reads")
        async def echo(value: Any) -> Any:
            return await python("result = input", value)

        @tool(effect="reads")
        async def add(a: int, b: int) -> dict[str, int]:
            found: dict[str, int] = await python("result = {'sum': input[0] + input[1]}", [a, b])
            return found

        @tool
        async def fail(text: str) -> None:
            await python("raise ValueError(input)", text)

        @tool
        async def wait() -> None:
            command = ["sh", "-c", "echo $$ > part; mv part pid; exec sleep 600"]
            await run_program(command, what="the program", cwd=folder)

        @tool
        async def progress(ctx: ToolContext) -> dict[str, bool]:
            for n, word in ((1, "half"), (2, "done")):
                await python("result = input", n)
                ctx.report(word, n, 2)
            return {"ok": True}

        @tool
        async def meet(n: int) -> bool:
            await python("result = input", n)
            arrived[0] += 1
            if arrived[0] >= n:
                everyone.set()
            async with asyncio.timeout(WAIT_SECS * 3):
                return await everyone.wait()

        self.source = KitSource([echo, add, fail, wait, progress, meet], name="programs")

    async def saw_started(self) -> bool:
        return await _until(self._pid.exists)

    async def saw_cancelled(self) -> bool:
        return await _until(lambda: not self._runs())

    def _runs(self) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self._pid.read_text()), 0)
            return True
        return False


async def _until(condition: Callable[[], bool]) -> bool:
    async with asyncio.timeout(WAIT_SECS):
        while True:
            if condition():
                return True
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def programs() -> AsyncIterator[Kit]:
    with tempfile.TemporaryDirectory() as folder:
        yield Programs(Path(folder))


KITS = [pytest.param(programs, id="programs and Python code")]
