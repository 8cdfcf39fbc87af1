"""Tasks accepted and finished a second, by the number of workers. A task is a chain of three steps that do nothing, all `once`."""

from __future__ import annotations

import asyncio
import time

from bench.scale.measure import Sizes, cpu_secs, no_postgres, row
from bench.scale.pool import chain, hand_in, pool

WORKERS = (1, 2, 4)


async def main(tasks: int) -> None:
    row(
        f"{tasks:,} tasks, tasks a second",
        ["accepted", "finished", "CPU ms a task", "of server", "alone ms"],
        14,
    )
    for count in WORKERS:
        async with pool() as made:
            await hand_in(made.replan, 50, chain(3))  # what is needed once is there
            begun = time.perf_counter()
            await hand_in(made.replan, tasks, chain(3))
            accepted = tasks / (time.perf_counter() - begun)
            ended = made.count("ended")
            workers = [made.workers.start() for _ in range(count)]
            for worker in workers:
                await asyncio.to_thread(worker.wait_ready)
            await made.until("ended", ended + 50)
            pids = [worker.pid for worker in workers]
            used, served = cpu_secs(pids), cpu_secs(made.server.pids())
            first, begun = made.count("ended"), time.perf_counter()
            await made.until("ended", tasks + 50)
            done = tasks + 50 - first
            finished = done / (time.perf_counter() - begun)
            used = (cpu_secs(pids) - used) / done * 1e3
            served = (cpu_secs(made.server.pids()) - served) / done * 1e3
            begun = time.perf_counter()
            for _ in range(20):
                await made.replan.run("nothing", plan=chain(3))
            alone = (time.perf_counter() - begun) / 20 * 1e3
            row(f"  {count} worker{'s' if count > 1 else ''}", [accepted, finished, used, served, alone], 14)


def run(sizes: Sizes) -> None:
    if why := no_postgres():
        print(f"workers are left out: {why}")
        return
    asyncio.run(main(sizes.tasks))
