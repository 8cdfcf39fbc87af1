"""Futures of other people's event loops, and how results get to them from the store's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple


class Waiter(NamedTuple):
    """A future of somebody else's loop."""

    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


def waiter() -> Waiter:
    """A future of the running loop, to be settled from the store's thread."""
    loop = asyncio.get_running_loop()
    return Waiter(loop.create_future(), loop)


Settled = tuple[Waiter, Any, BaseException | None]


def settle(done: Iterable[Settled]) -> None:
    """Hand results over, one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for item in done:
        by_loop.setdefault(item[0].loop, []).append(item)
    for loop, items in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle_here, items)
        except RuntimeError:  # the loop is gone, and with it whoever waited
            continue


def settle_here(items: Iterable[Settled]) -> None:
    """The same, in the loop of those who wait."""
    for (future, _), result, error in items:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
