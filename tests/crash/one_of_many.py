"""One of many processes on one database: submits tasks, runs them, and tells of them in a line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

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


async def main(database: str, folder: str, name: str, count: int) -> None:
    async with Replan(tools=[note], db=Path(database), evaluation="steps") as replan:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # all begin at once
        names = [f"{name}-{n}" for n in range(count)]
        tasks = [await replan.submit("note it", plan=plan(folder, each), task_id=each) for each in names]
        results = await asyncio.gather(*map(replan.wait, tasks))
    print(json.dumps({each.task_id: each.status for each in results}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
