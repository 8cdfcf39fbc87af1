"""Heavy work beside the event loop: left behind, or seen through with a cancellation put off and not lost."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from replan.beside import beside, seen_through


def run(main: Any) -> Any:
    return asyncio.run(main)


def test_what_the_work_gives_or_raises_comes_back_from_a_thread() -> None:
    word = contextvars.ContextVar("word", default="none")

    def work(first: int, *, second: int) -> tuple[int, str, bool]:
        if first < 0:
            raise ValueError(second)
        return first + second, word.get(), threading.current_thread() is threading.main_thread()

    async def main() -> None:
        word.set("said")
        assert await beside(work, 1, second=2) == (3, "said", False)
        with pytest.raises(ValueError, match="7"):
            await beside(work, -1, second=7)

    run(main())


@pytest.mark.parametrize("cancels", [1, 3])
def test_a_cancellation_meanwhile_is_raised_at_the_next_wait(cancels: int) -> None:
    go, seen = threading.Event(), []

    async def worker() -> None:
        seen.append(await seen_through(lambda: go.wait(30)))
        seen.append("written down")
        await asyncio.sleep(0)
        seen.append("never")

    async def main() -> None:
        task = asyncio.create_task(worker())
        for _ in range(cancels):
            await asyncio.sleep(0)
            task.cancel()
        assert not seen
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main())
    assert seen == [True, "written down"]


def test_several_put_off_one_after_the_other_are_all_seen_through() -> None:
    go, seen = threading.Event(), []

    async def worker() -> None:
        seen.extend([(n, await seen_through(lambda: go.wait(30))) for n in range(3)])
        await asyncio.sleep(0)
        seen.append((9, True))

    async def main() -> None:
        task = asyncio.create_task(worker())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert seen == [(0, True), (1, True), (2, True)]


def test_who_is_cancelled_while_it_changes_nothing_leaves_it_behind() -> None:
    go, ended = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(30)
        ended.set()

    async def main() -> None:
        first, second = asyncio.create_task(beside(work)), asyncio.create_task(beside(ended.set))
        await asyncio.sleep(0)
        for task in (first, second):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not ended.is_set(), "what had not begun is not begun"
        go.set()
        assert ended.wait(30)

    run(main())


def test_only_one_of_them_works_at_a_time() -> None:
    running, most = 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.001)
        running -= 1

    async def main() -> None:
        await asyncio.gather(*(beside(work) for _ in range(20)))

    run(main())
    assert most == 1
