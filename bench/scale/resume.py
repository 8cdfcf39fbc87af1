"""A task with ten thousand events taken up again: from `resume` to the call that it goes on with."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.scale.measure import Sizes, no_postgres, row
from replan import Replan, tool

STEPS = (50, 2_500)
"""Four events each."""


class Held:
    """A tool that is called last, and says when."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def nothing(i: int) -> int:
            """Do nothing."""
            return i

        @tool(effect="repeatable")
        async def hold() -> None:
            """Never answer."""
            self.called.set()
            await asyncio.Event().wait()

        return [nothing, hold]


def plan_of(steps: int) -> dict[str, Any]:
    names = [f"s{n}" for n in range(steps)]
    return {
        "steps": [
            *({"step_id": name, "tool": "nothing", "parameters": {"i": n}} for n, name in enumerate(names)),
            {"step_id": "last", "tool": "hold", "parameters": {}, "dependencies": names},
        ]
    }


async def one(db: str | Path, steps: int) -> tuple[int, float]:
    """How many events it has, and seconds to its next call in a new process's stead: a new Replan."""
    held = Held()
    async with Replan(tools=held.tools(), db=db, evaluation="steps") as replan:
        task_id = await replan.submit("nothing", plan=plan_of(steps))
        await held.called.wait()
    spent = []
    for _ in range(3):
        held = Held()
        async with Replan(tools=held.tools(), db=db, evaluation="steps") as replan:
            events = (await replan.summary(task_id)).last_seq
            begun = time.perf_counter()
            going_on = asyncio.ensure_future(replan.resume(task_id))
            await held.called.wait()
            spent.append(time.perf_counter() - begun)
            going_on.cancel()
            await asyncio.gather(going_on, return_exceptions=True)
    return events, min(spent)


def run(_: Sizes) -> None:
    row("a task taken up again", ["events", "ms", " µs an event"])

    def tell(name: str, found: tuple[int, float]) -> None:
        row(f"  {name}", [f"{found[0]:,}", found[1] * 1e3, found[1] / found[0] * 1e6])

    for steps in STEPS:
        with tempfile.TemporaryDirectory() as name:
            tell("SQLite", asyncio.run(one(Path(name) / "log.db", steps)))
    if why := no_postgres():
        print(f"PostgreSQL is left out: {why}")
        return
    from postgres_server import PostgresServer

    server = PostgresServer(fsync=True)
    try:
        for steps in STEPS:
            tell("PostgreSQL", asyncio.run(one(server.url(), steps)))
    finally:
        server.close()
