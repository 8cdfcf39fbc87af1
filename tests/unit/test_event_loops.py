"""What the tests' own event loop leaves out, and what it does not."""

from __future__ import annotations

import asyncio
from typing import Any

from event_loops import Loop, is_for_another_loop


def test_an_error_of_the_loop_itself_is_heard() -> None:
    heard: list[dict[str, Any]] = []

    def fail() -> None:
        raise RuntimeError("Event loop is closed")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context))
        loop.call_soon(fail)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())
    assert [str(one["exception"]) for one in heard] == ["Event loop is closed"]
    assert not is_for_another_loop(heard[0])
