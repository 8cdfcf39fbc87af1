"""How long a killed worker's task stands still: kill -9 to the call that another worker makes again.

    python -m bench.takeover                     50 kills at the default takeover_secs of 30, about a minute and a half
    python -m bench.takeover --kills 10 --takeover-secs 6

As many workers as kills, each with one task in the middle of a call, beside a few that have nothing to do. They are killed one after
another, at random moments of their heartbeats, and the others take over. `bound`: what takeover_secs promises.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.ending import clear_up_when_told
from bench.workers import Workers

LONG_SECS = 3_600.0


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a killed worker's task stands still.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--takeover-secs", type=float, default=30.0)
    parser.add_argument(
        "--idle", type=int, default=3, help="workers that wait for what the killed ones leave"
    )
    given = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        f"{given.kills} kills, takeover_secs {given.takeover_secs:g}"
    )
    clear_up_when_told()
    found = asyncio.run(measure(given.kills, given.takeover_secs, given.idle))
    ordered = sorted(found)
    print(f"taken over: {len(found)} of {given.kills}; seconds from the kill to the call made again")
    print(
        f"min {ordered[0]:.1f}, median {statistics.median(ordered):.1f}, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.1f}, "
        f"max {ordered[-1]:.1f} (bound {given.takeover_secs:g})"
    )
    sys.exit(len(found) != given.kills or ordered[-1] > given.takeover_secs)


async def measure(kills: int, takeover_secs: float, idle: int) -> list[float]:
    from bench.takeover.tasks import tools
    from postgres_server import PostgresServer
    from replan import Replan
    from replan.config import Settings

    server = PostgresServer(fsync=True, settings={"max_connections": "1000"})
    engine = {"kind": "procrastinate", "takeover_secs": takeover_secs}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            common = {"address": server.url(), "engine": engine, "tools": "bench.takeover.tasks:tools"}
            settings = Settings.model_validate({"engine": engine})
            with Workers(folder, **common) as workers:
                async with Replan(
                    tools=tools(folder), db=server.url(), settings=settings, evaluation="steps"
                ) as replan:
                    plan = {"steps": [{"step_id": "s", "tool": "hold", "parameters": {"secs": LONG_SECS}}]}
                    doomed = await asyncio.to_thread(workers.start_all, kills, concurrency=1)
                    for _ in range(kills):
                        await replan.submit("hold", plan=plan)
                    while len(begun(folder)) < kills:  # noqa: ASYNC110 - they are other processes
                        await asyncio.sleep(0.05)
                    await asyncio.to_thread(workers.start_all, idle, concurrency=kills)
                    # Each worker has to have said once that it lives, at a moment of its own.
                    chance = random.Random(1)
                    killed: dict[int, float] = {}
                    await asyncio.sleep(takeover_secs / 5)
                    for worker in doomed:
                        await asyncio.sleep(chance.uniform(0, 0.4))
                        worker.kill()
                        killed[worker.pid] = time.time()
                    return await _taken_over(folder, killed, 2 * takeover_secs)
    finally:
        server.close()


async def _taken_over(folder: Path, killed: dict[int, float], patience: float) -> list[float]:
    """Seconds from each kill to the first call of its task by another."""
    until = time.time() + patience
    while True:
        first: dict[str, dict[str, Any]] = {}
        found: dict[str, float] = {}
        for said in begun(folder):
            if said["task"] not in first:
                first[said["task"]] = said
            elif said["task"] not in found:
                found[said["task"]] = said["at"] - killed[first[said["task"]]["pid"]]
        if len(found) == len(killed) or time.time() > until:
            return list(found.values())
        await asyncio.sleep(0.1)


def begun(folder: Path) -> list[dict[str, Any]]:
    path = folder / "begun"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
