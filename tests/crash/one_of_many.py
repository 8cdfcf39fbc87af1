"""Many processes on one database: each submits tasks, runs them, and leaves a file of JSON that tells of them.

`one_of_many.py DATABASE FOLDER COUNT NAME…` forks one for each name; all begin at once, when all are ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path

import replan.app
import replan.store.sqlite  # noqa: F401 - imported once, here
from replan import Replan, tool


@tool(effect="once")
def note(folder: str, name: str) -> str:
    """Write a line into a file of its own."""
    with Path(folder, f"{name}.txt").open("a") as file:
        file.write("x")
    return name


def plan(folder: str, name: str) -> dict[str, object]:
    steps = [
        {"step_id": f"s{n}", "tool": "note", "parameters": {"folder": folder, "name": f"{name}-{n}"}}
        for n in range(3)
    ]
    return {"steps": [*steps, {"step_id": "last", "tool": "note", "dependencies": ["s0", "s1", "s2"],
                               "parameters": {"folder": folder, "name": f"{name}-last"}}]}  # fmt: skip


async def main(database: str, folder: str, name: str, count: int, ready: int, go: int) -> str:
    async with Replan(tools=[note], db=Path(database), evaluation="steps") as replan:
        os.close(ready)
        await asyncio.to_thread(os.read, go, 1)  # all begin at once
        names = [f"{name}-{n}" for n in range(count)]
        tasks = [await replan.submit("note it", plan=plan(folder, each), task_id=each) for each in names]
        results = await asyncio.gather(*map(replan.wait, tasks))
    return json.dumps({each.task_id: each.status for each in results})


def fork_all(database: str, folder: str, count: int, names: list[str]) -> None:
    listening, ready = os.pipe()
    go, start = os.pipe()
    for name in names:
        if os.fork() == 0:
            os.close(listening)
            os.close(start)
            try:
                told = asyncio.run(main(database, folder, name, count, ready, go))
                Path(folder, f"{name}.json").write_text(told)
            except BaseException:  # noqa: BLE001 - whatever it is, the test has to see it
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
    os.close(ready)
    os.read(listening, 1)  # its end: every process has closed its own
    os.close(start)
    for _ in names:
        os.wait()


if __name__ == "__main__":
    fork_all(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
