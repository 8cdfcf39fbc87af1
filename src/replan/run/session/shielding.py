"""Seeing work to its end beside cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def see_through(work: Coroutine[Any, Any, T]) -> T:
    """Do something to its end, whoever cancels; the cancellation goes on afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await wait_through([task])
    finally:
        noticed(task)
    return task.result()


async def wait_through(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Wait for the end of all of them, whoever cancels; the cancellation goes on afterwards."""
    cut: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cut = error
    if cut is not None:
        raise cut


def noticed(task: asyncio.Future[Any]) -> None:
    """Look at the error of something that has ended, so that nobody is told it was overlooked."""
    if not task.cancelled():
        task.exception()
