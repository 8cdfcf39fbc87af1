"""The tools that a server offers to be checked by `replan tools conformance`, in Python."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from replan.ports import Progress
from replan.tools.functions.decorator import tool

_counts: Counter[str] = Counter()
_cancelled: set[str] = set()


@tool(effect="reads")
async def conformance_echo(value: Any) -> Any:
    """Give the value back."""
    return value


@tool
async def conformance_count(name: str, wait_ms: int = 0) -> dict[str, int]:
    """Count one more call of that name; give the count after `wait_ms`."""
    _counts[name] += 1
    count = _counts[name]
    await asyncio.sleep(wait_ms / 1000)
    return {"count": count}


@tool(effect="reads", volatile=True)
async def conformance_counted(name: str) -> dict[str, int]:
    """How often `conformance_count` was called with that name."""
    return {"count": _counts[name]}


@tool(effect="reads")
async def conformance_wait(name: str) -> None:
    """Wait until it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        _cancelled.add(name)


@tool(effect="reads", volatile=True)
async def conformance_cancelled(name: str) -> bool:
    """Whether `conformance_wait` of that name was cancelled."""
    return name in _cancelled


@tool
async def conformance_fail(message: str) -> None:
    """Fail with that message; nothing happens."""
    raise ValueError(message)


@tool(effect="reads")
async def conformance_progress() -> AsyncIterator[Progress | dict[str, bool]]:
    """Report ("half", 1, 2), then ("done", 2, 2); give {"ok": true}."""
    yield Progress("half", 1, 2)
    yield Progress("done", 2, 2)
    yield {"ok": True}
