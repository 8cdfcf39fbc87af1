"""Many calls with an effect, while connections are cut and the server is killed: none twice, and no false word."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from remote_process import TOKEN, Process, Proxy, process

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.remote import RemoteSource

pytestmark = pytest.mark.anyio
CALLS = 40


async def _trouble(server: Process, proxy: Proxy, chance: random.Random, ended: asyncio.Event) -> None:
    """Cut connections again and again, and kill the server now and then."""
    while not ended.is_set():
        await asyncio.sleep(chance.uniform(0.01, 0.1))
        if chance.random() < 0.05:
            await server.kill()
            await server.start()
        else:
            proxy.cut()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_no_effect_takes_place_twice(protocol: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    async with process(tmp_path, protocol) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        await proxy.start()
        source = RemoteSource([f"{protocol}://127.0.0.1:{proxy.port}"], token=TOKEN, max_retries=5)
        await source.tools()

        async def call(n: int) -> str:
            """How the call ended for its caller, who tries again what may be tried again."""
            doubt = False
            for attempt in range(1, 6):
                request = ToolCall(
                    "brief_effect", {"name": f"call-{n}"}, f"key-{n}", attempt=attempt, deadline_secs=20
                )
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
        ended = asyncio.Event()
        trouble = asyncio.create_task(_trouble(server, proxy, chance, ended))
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(8):
                    workers.create_task(worker())
        finally:
            ended.set()
            await trouble
            await source.aclose()
            await proxy.stop()
        assert len(ends) == CALLS
        for n, end in ends.items():
            allowed = {"done": {1}, "no": {0}, "unknown": {0, 1}}[end]
            assert server.traces(f"call-{n}") in allowed, (n, end)
        assert sum(end == "done" for end in ends.values()) > CALLS / 2
