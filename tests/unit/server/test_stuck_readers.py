"""A reader that takes nothing is cut off, whoever makes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from replan.server.streams.sse import CutOffWhenStuck, Sending
from replan.testing import virtual_time


async def lines() -> AsyncIterator[bytes]:
    while True:
        yield b"data: 1\n\n"


def test_it_is_cut_off_after_that_time_and_not_before() -> None:
    async def main() -> float:
        cut = asyncio.Event()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) > 3:  # and takes no more
                await asyncio.Event().wait()

        async def receive() -> Any:
            await cut.wait()
            return {"type": "http.disconnect"}

        began = asyncio.get_running_loop().time()
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "replan.abort": cut.set}
        answer = CutOffWhenStuck(
            StreamingResponse(lines(), media_type="text/event-stream"), Sending(stuck_secs=60)
        )
        await answer(scope, receive, send)
        assert len(sent) == 4
        return asyncio.get_running_loop().time() - began

    assert 60 <= virtual_time(main()) <= 90
