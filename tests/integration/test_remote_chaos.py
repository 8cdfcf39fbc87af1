"""Many calls with an effect, while connections are cut and the server is killed: none twice, and no false word."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest
from remote_process import TOKEN, Process, Proxy, process

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.remote import RemoteSource

pytestmark = pytest.mark.anyio
CALLS = 40


class Trouble:
    """Cuts all connections after every few calls, and kills the server every few times; on a slow machine no oftener."""

    def __init__(self, server: Process, proxy: Proxy) -> None:
        self._server, self._proxy = server, proxy
        self._chance = random.Random(7)
        self._begun = asyncio.Semaphore(0)
        self._up = asyncio.Event()
        self._up.set()
        self.over = False

    async def call_begins(self) -> None:
        """A call is made, now or once the server is there again."""
        await self._up.wait()
        self._begun.release()

    async def make(self) -> None:
        for time in itertools.count(1):
            for _ in range(self._chance.randint(1, 6)):
                await self._begun.acquire()
                if self.over:
                    return
            await asyncio.sleep(self._chance.uniform(0, 0.05))
            if time % 4:
                self._proxy.cut()
                continue
            self._up.clear()
            try:
                await self._server.kill()
                await self._server.start()
            finally:
                self._up.set()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_no_effect_takes_place_twice(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        await proxy.start()
        source = RemoteSource([f"{protocol}://127.0.0.1:{proxy.port}"], token=TOKEN, max_retries=5)
        await source.tools()
        trouble = Trouble(server, proxy)

        async def call(n: int) -> str:
            """How the call ended for its caller, who tries again what may be tried again."""
            doubt = False
            for attempt in range(1, 6):
                request = ToolCall(
                    "brief_effect", {"name": f"call-{n}"}, f"key-{n}", attempt=attempt, deadline_secs=20
                )
                await trouble.call_begins()
                try:
                    assert await source.call(request) == {"done": 1}
                except ToolCallError as error:
                    if doubt and error.happened == "no":
                        return "was in doubt, and then it was not"
                    doubt = error.happened == "unknown"
                    if error.kind == "in_doubt":
                        break
                else:
                    return "done"
            return "unknown" if doubt else "no"

        async def worker() -> None:
            for n in numbers:
                ends[n] = await call(n)

        numbers = iter(range(CALLS))
        ends: dict[int, str] = {}
        making = asyncio.create_task(trouble.make())
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(8):
                    workers.create_task(worker())
        finally:
            trouble.over = True
            await trouble.call_begins()
            await making
            await source.aclose()
            await proxy.stop()
        assert len(ends) == CALLS
        for n, end in ends.items():
            allowed = {"done": {1}, "no": {0}, "unknown": {0, 1}}[end]
            assert server.traces(f"call-{n}") in allowed, (n, end)
        assert sum(end == "done" for end in ends.values()) > CALLS / 2
