"""Results of a store's thread reach whoever waits in an event loop: at once where somebody is told, and whatever becomes of others."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from replan.ports import Landing
from replan.store.settling import Settled, Waiter, settle, settle_here, waiter

pytestmark = pytest.mark.anyio


def settled_elsewhere(done: list[Settled]) -> None:
    thread = threading.Thread(target=settle, args=(done,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("others", [0, 1])
async def test_whoever_is_told_hears_it_before_callbacks_do(others: int) -> None:
    asked = [waiter() for _ in range(1 + others)]
    heard: list[str] = []
    asked[0].future.add_done_callback(lambda _: heard.append("called back"))
    asked[0].future.told = lambda future: heard.append(f"told {future.result()}")
    settled_elsewhere([(one, n, None) for n, one in enumerate(asked)])
    assert [await one.future for one in asked] == list(range(1 + others))
    await asyncio.sleep(0)
    assert heard == ["told 0", "called back"]


async def test_an_error_is_told_too() -> None:
    asked = waiter()
    heard: list[BaseException | None] = []
    asked.future.told = lambda future: heard.append(future.exception())
    settle_here([(asked, None, ValueError("full"))])
    assert [str(error) for error in heard] == ["full"]


async def test_one_who_fails_at_what_he_is_told_keeps_it_from_nobody() -> None:
    first, second = waiter(), waiter()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def breaks(_: asyncio.Future[Any]) -> None:
        raise ValueError("broken")

    first.future.told = breaks
    settle_here([(first, 1, None), (second, 2, None)])
    assert (first.future.result(), second.future.result()) == (1, 2)
    assert [str(context["exception"]) for context in reported] == ["broken"]


async def test_what_is_cancelled_is_told_once_and_not_settled() -> None:
    asked = waiter()
    heard: list[bool] = []
    asked.future.told = lambda future: heard.append(future.cancelled())
    assert asked.future.cancel()
    assert not asked.future.cancel()
    settle_here([(asked, 1, None)])
    assert heard == [True]


def test_whoever_has_gone_with_his_loop_is_told_nothing() -> None:
    loop = asyncio.new_event_loop()
    gone = Waiter(Landing(loop=loop), loop)
    loop.close()
    settled_elsewhere([(gone, 1, None)])
    settled_elsewhere([(gone, 1, None), (gone, 2, None)])
    assert not gone.future.done()
