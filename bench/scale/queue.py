"""A queue of a hundred thousand tasks beside a short one: what a fetch, a submission and a look at it cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.scale.clones import POSTGRES, clone, postgres_ask
from bench.scale.measure import Sizes, no_postgres, row
from bench.scale.pool import Pool, chain, hand_in, pool

SHORT = 100
ENDED = 300
"""Tasks that are finished while the rest waits."""
_ENDED = "ended AND id <= 1000"
"""Those that go first: to count all of a hundred thousand takes longer than what is measured."""
_WAKE = "SELECT count(wake(task_id, queue, priority)) FROM task WHERE task_id LIKE 'c%'"


async def filled(made: Pool, count: int) -> None:
    import psycopg

    task_id = await made.replan.submit("nothing", plan=chain(3), task_id="template")
    with psycopg.connect(made.server.url(), autocommit=True, options="-c search_path=replan") as connection:
        ask = postgres_ask(connection)
        clone(ask, POSTGRES, task_id, count)
        ask(_WAKE)
        ask("VACUUM ANALYZE")


async def mean_ms(work: Callable[[], Awaitable[object]], tries: int = 50) -> float:
    begun = time.perf_counter()
    for _ in range(tries):
        await work()
    return (time.perf_counter() - begun) / tries * 1e3


async def one_size(count: int) -> dict[str, float]:
    async with pool() as made:
        await hand_in(made.replan, 1, chain(3))
        await filled(made, count)
        found = {
            "submit, ms": await mean_ms(lambda: made.replan.submit("nothing", plan=chain(3))),
            "look at what waits (`doctor`), ms": await mean_ms(made.replan.waiting_lines, 5),
            "list the newest 100, ms": await mean_ms(made.replan.tasks),
        }
        (worker,) = await asyncio.to_thread(made.workers.start_all, 1)
        await made.until(_ENDED, 20)
        first, begun = made.count(_ENDED), time.perf_counter()
        await made.until(_ENDED, min(first + ENDED, count))
        found["finished a second, one worker"] = (min(first + ENDED, count) - first) / (
            time.perf_counter() - begun
        )
        begun = time.perf_counter()
        await made.replan.wait(await made.replan.submit("nothing", plan=chain(3), priority=9))
        found["one that goes first, from submit to its end, ms"] = (time.perf_counter() - begun) * 1e3
        worker.kill()
        return found


def run(sizes: Sizes) -> None:
    if why := no_postgres():
        print(f"the queue is left out: {why}")
        return
    short, long = (asyncio.run(one_size(count)) for count in (SHORT + ENDED, sizes.queued))
    row("a queue with tasks", [f"{SHORT + ENDED:,}", f"{sizes.queued:,}", "ratio"])
    for name, spent in short.items():
        row(f"  {name}", [spent, long[name], f"{long[name] / spent:.2f}"])
