"""One run of the chaos, from its first task to its audit."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.chaos import outside
from bench.chaos.audit import Findings, audit
from bench.chaos.blows import Blows, drawn
from bench.chaos.people import People
from bench.chaos.tasks import FROZEN_SECS, tools
from bench.workers import Workers
from postgres_server import PostgresServer
from tcp_proxy import TcpProxy

DATABASE = "postgres"
_DISK_BYTES = 1_500_000_000


class Size(NamedTuple):
    """What a run is made of."""

    tasks: int
    blows: int
    secs: float
    """So long the blows fall, and tasks are handed in."""
    only: tuple[str, ...] = ()
    """Blows of these kinds; empty: of all."""
    takeover_secs: float = 3.0
    stuck_secs: float = 90.0
    """So long nothing may end, once everything works again, before what is left is called stuck."""


class Outcome(NamedTuple):
    found: Findings
    blows: Counter[str]
    did: Counter[str]
    secs: float
    jobs_left: str
    disk_filled: bool


@contextlib.contextmanager
def world(size: Size, seed: int, keep: bool) -> Iterator[tuple[Path, PostgresServer, list[TcpProxy]]]:
    folder = Path(tempfile.mkdtemp(prefix="rpc", dir="/tmp"))  # short: a socket's path is
    with contextlib.ExitStack() as stack:
        if not keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = PostgresServer(
            fsync=True,
            settings={"max_wal_size": "128MB", "log_min_messages": "log" if keep else "warning"},
            disk_bytes=_DISK_BYTES,
        )
        stack.callback(server.close)
        if keep:
            stack.callback(lambda: shutil.copy(server.folder / "log", folder / "postgres.log"))
        proxies = [stack.enter_context(TcpProxy(server.port)) for _ in range(2)]
        beyond = outside.start(folder, seed)
        stack.callback(beyond.wait)
        stack.callback(beyond.kill)
        yield folder, server, proxies


def replan(folder: Path, address: str, takeover_secs: float) -> Any:
    from replan import Replan
    from replan.config import Settings

    settings = Settings.model_validate({"engine": {"kind": "procrastinate", "takeover_secs": takeover_secs}})
    return Replan(tools=tools(folder), db=address, settings=settings, evaluation="steps", interactive=True)


async def run(size: Size, seed: int, say: Callable[[str], None], *, keep: bool = False) -> Outcome:
    """Let it happen, and look at what is left. `say` is told how it goes; `keep`: what it has written stays."""
    begun = time.monotonic()
    chance = random.Random(seed)
    with world(size, seed, keep) as (folder, server, proxies):
        if keep:
            say(f"everything is kept in {folder}")
        # A run may have a limit over all workers.
        engine = {"takeover_secs": size.takeover_secs, "max_running_tasks": chance.choice([None, 20])}
        common = {"tools": "bench.chaos.tasks:tools", "grace": 1.0, "concurrency": 8, "engine": engine}
        with Workers(folder, **common) as workers:
            async with replan(folder, server.url(DATABASE, port=proxies[0].port), size.takeover_secs) as mine:
                blows = Blows(workers, server, proxies, DATABASE, chance, (1.2 * size.takeover_secs, FROZEN_SECS), say)  # fmt: skip
                people = People(mine, folder, seed, blows.frozen)
                await blows.fill_up()
                looking = asyncio.create_task(people.look_after())
                rate = size.secs / size.tasks
                draws = random.Random(f"{seed} pauses")
                async with asyncio.TaskGroup() as both:
                    both.create_task(people.hand_in(size.tasks, lambda _: draws.uniform(0, 2 * rate)))
                    both.create_task(blows.fall(drawn(size.blows, chance, size.only), size.secs))
                say("everything works again")
                await blows.end()
                await _until_all_ended(mine, size, say)
                if looking.done():
                    looking.result()
                looking.cancel()
                found = await audit(mine, people, folder)
                found.workers = blows.failures
                jobs = await asyncio.to_thread(_jobs_left, server)
        return Outcome(found, blows.count, people.did, time.monotonic() - begun, jobs, server.limited)


async def _until_all_ended(mine: Any, size: Size, say: Callable[[str], None]) -> None:
    last, since = -1, time.monotonic()
    while time.monotonic() - since < size.stuck_secs:
        open_ones = [task for task in await mine.tasks(limit=size.tasks + 1) if task.status not in _ENDED]
        if not open_ones:
            return
        if len(open_ones) != last:
            last, since = len(open_ones), time.monotonic()
            say(f"{last} tasks are left")
        await asyncio.sleep(0.5)


_ENDED = ("succeeded", "failed", "cancelled", "timed_out")


def _jobs_left(server: PostgresServer) -> str:
    """Once all tasks have ended there is nothing to do: what is still in the queue goes within a moment."""
    left = ""
    for _ in range(100):
        left = server.sql(
            "SELECT status, count(*) FROM replan.procrastinate_jobs GROUP BY 1", database=DATABASE
        )
        if not left:
            break
        time.sleep(0.1)
    return left
