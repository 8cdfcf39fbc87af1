"""Futures of other people's event loops, and how results get to them from the store's thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from replan.ports import Landing


class Waiter(NamedTuple):
    """A future of somebody else's loop."""

    future: Landing
    loop: asyncio.AbstractEventLoop


def waiter() -> Waiter:
    """A future of the running loop, to be settled from the store's thread."""
    loop = asyncio.get_running_loop()
    return Waiter(Landing(loop=loop), loop)


Settled = tuple[Waiter, Any, BaseException | None]


def settle(done: Sequence[Settled]) -> None:
    """Hand results over, one wake-up a loop."""
    if len(done) == 1:  # as most
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            done[0][0].loop.call_soon_threadsafe(settle_here, done)
        return
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
    for (future, loop), result, error in items:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        told, future.told = future.told, None
        if told is not None:
            try:
                told(future)
            except Exception as fault:  # noqa: BLE001 - as of a callback: the others are to be told all the same
                said = {"message": "whoever was told of an append failed", "exception": fault}
                loop.call_exception_handler(said)
