"""Ten thousand tasks that wait for a person: what they hold, and how soon one goes on when it is answered."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from pathlib import Path

from bench.scale.measure import Sizes, no_postgres, row
from bench.scale.pool import Pool, chain, hand_in, pool

FEW = 100
ANSWERED = 100


def rss_mib(pid: int) -> float:
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


def connections(made: Pool) -> int:
    return (
        int(made.server.sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"))
        - 1
    )


async def one_size(count: int) -> dict[str, float]:
    async with pool() as made:
        (worker,) = await asyncio.to_thread(made.workers.start_all, 1)
        await hand_in(made.replan, 1, chain(2))
        await made.until("ended", 1)
        await asyncio.sleep(0.5)
        before = rss_mib(worker.pid)
        begun = time.perf_counter()
        await hand_in(made.replan, count, chain(2, "agreed"))
        await made.until("status = 'waiting' AND NOT due", count, 0.3)
        found = {"came to wait, a second": count / (time.perf_counter() - begun)}
        await asyncio.sleep(1.0)
        found["connections of worker and submitter"] = float(connections(made))
        found["the worker's memory, MiB more"] = rss_mib(worker.pid) - before
        waiting = await made.replan.tasks(status=["waiting"], limit=count)
        begun = time.perf_counter()
        for _ in range(20):
            await made.replan.tasks(status=["waiting"], limit=100)
        found["list 100 that wait, ms"] = (time.perf_counter() - begun) / 20 * 1e3
        spent = []
        for task in random.Random(1).sample(waiting, min(ANSWERED, count)):
            begun = time.perf_counter()
            await made.replan.approve(task.task_id)
            result = await made.replan.wait(task.task_id)
            assert result.is_success, result.failure
            spent.append(time.perf_counter() - begun)
        found["from a person's yes to the end, median ms"] = statistics.median(spent) * 1e3
        found["the longest of them, ms"] = max(spent) * 1e3
        return found


def run(sizes: Sizes) -> None:
    if why := no_postgres():
        print(f"waiting tasks are left out: {why}")
        return
    few, many = (asyncio.run(one_size(count)) for count in (FEW, sizes.waiting))
    row("tasks that wait for a person", [f"{FEW:,}", f"{sizes.waiting:,}"])
    for name, spent in few.items():
        row(f"  {name}", [spent, many[name]])
