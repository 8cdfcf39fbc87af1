"""One row measured: calls alone, 32 at once, through the catalogue and in whole tasks, all taking turns."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from bench.tools.rows import Call, Opened, Row
from replan import Replan
from replan.config import Settings
from replan.testing import MemoryStore
from replan.tools import Catalog

AT_ONCE, STEPS = 32, 200
BARE, SOURCE, CATALOG, SQLITE, MEMORY = "bare", "source", "catalog", "task, SQLite", "task, in memory"
_WARM_UP = 5


async def measured(row: Row, rounds: int) -> dict[str, Any]:
    """Medians: by who makes the calls.

    `alone`: seconds of a call; `added`: to the bare one beside it. With 32 at once `many`: calls a second; `cpu`: seconds
    of this process for each; `to_bare`: time a call to the bare ones of the same round.
    """
    with tempfile.TemporaryDirectory() as base:
        async with row.open(Path(base)) as opened, AsyncExitStack() as stack:
            callers = await _callers(opened, stack)
            for i in range(_WARM_UP):
                for call in callers.values():
                    await call(i)
            alone = await _alone(callers, row.alone)
            goes: dict[str, Callable[[], Awaitable[Go]]] = {
                name: lambda call=call: _at_once(call, row.burst)  # type: ignore[misc]
                for name, call in callers.items()
            }
            tasks = await _tasks(opened, stack, Path(base))
            for name, whole in tasks.items():
                goes[name] = lambda whole=whole: _in_one(whole)  # type: ignore[misc]
            for name, whole in opened.many.items():
                goes[name] = lambda whole=whole: _in_one(whole)  # type: ignore[misc]
            rates = await _turns(goes, rounds)
    return {
        "label": row.label,
        "network": row.network,
        "alone": {name: statistics.median(each) for name, each in alone.items()},
        "added": {
            name: statistics.median(a - b for a, b in zip(each, alone[BARE], strict=True))
            for name, each in alone.items()
        },
        "many": {name: statistics.median(go.rate for go in each) for name, each in rates.items()},
        "cpu": {name: statistics.median(go.cpu for go in each) for name, each in rates.items()},
        "to_bare": {
            name: statistics.median(b.rate / a.rate for a, b in zip(each, rates[BARE], strict=True))
            for name, each in rates.items()
        },
    }


async def _callers(opened: Opened, stack: AsyncExitStack) -> dict[str, Call]:
    source, inner = opened.source(), opened.source()
    catalog = Catalog([inner])
    await source.tools()
    await catalog.open()
    stack.push_async_callback(source.aclose)
    stack.push_async_callback(catalog.aclose)
    for who in (source, catalog):
        value = await who.call(opened.call(7))
        assert opened.right(value, 7), value
    return {
        BARE: opened.bare,
        SOURCE: lambda i: source.call(opened.call(i)),
        CATALOG: lambda i: catalog.call(opened.call(i)),
        **opened.peers,
    }


async def _alone(callers: dict[str, Call], count: int) -> dict[str, list[float]]:
    """Each makes one call, then the next one does."""
    found: dict[str, list[float]] = {name: [] for name in callers}
    order = list(callers.items())
    for i in range(count):
        for name, call in order:
            begun = time.perf_counter()
            await call(i)
            found[name].append(time.perf_counter() - begun)
        order.append(order.pop(0))
    return found


class Go(NamedTuple):
    """Many calls made: how many a second, and seconds of this process' CPU for each."""

    rate: float
    cpu: float


async def _at_once(call: Call, count: int) -> Go:
    numbers: Iterator[int] = iter(range(count))

    async def worker() -> None:
        for i in numbers:
            await call(i)

    async def whole(count: int) -> None:
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))

    return await _in_one(whole, count)


async def _in_one(whole: Callable[[int], Awaitable[Any]], count: int = STEPS) -> Go:
    begun, used = time.perf_counter(), time.process_time()
    await whole(count)
    return Go(count / (time.perf_counter() - begun), (time.process_time() - used) / count)


async def _turns(goes: dict[str, Callable[[], Awaitable[Go]]], rounds: int) -> dict[str, list[Go]]:
    found: dict[str, list[Go]] = {name: [] for name in goes}
    order = list(goes.items())
    for go in goes.values():
        await go()
    for _ in range(rounds):
        for name, go in order:
            found[name].append(await go())
        order.append(order.pop(0))
    return found


async def _tasks(
    opened: Opened, stack: AsyncExitStack, folder: Path
) -> dict[str, Callable[[int], Awaitable[None]]]:
    """Whole tasks of parallel steps, their log on disk and in memory."""
    settings = Settings.model_validate({"orchestrator": {"parallel_max_concurrent": AT_ONCE}})

    def ready(replan: Replan) -> Callable[[int], Awaitable[None]]:
        async def whole(count: int) -> None:
            steps = [
                {"step_id": f"s{i}", "tool": opened.tool, "parameters": opened.parameters(i)}
                for i in range(count)
            ]
            result = await replan.run("calls", plan={"steps": steps})
            assert result.is_success, result.failure

        return whole

    def replan(name: str) -> Replan:
        return Replan(tools=[opened.source()], db=folder / name, settings=settings, evaluation="steps")

    kept = await stack.enter_async_context(replan("replan.db"))
    with mock.patch("replan.app.opening.open_store", return_value=MemoryStore()):
        unkept = await stack.enter_async_context(replan("unused.db"))
    return {SQLITE: ready(kept), MEMORY: ready(unkept)}
