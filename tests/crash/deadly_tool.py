"""Drives some tasks at once, again and again, each time in a process of its own; a tool of some of them ends its process.

Prints how many processes it took, and how the tasks ended, as one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import replan.store.sqlite  # noqa: F401 - used by every process to come: imported once, here
from replan import Replan, tool
from replan.errors import TaskEnded, TaskNotFound

FOLDER = Path(sys.argv[1])
EFFECT = sys.argv[2]
MOST = 30
"""Processes; then it is given up."""


@tool(effect="reads" if EFFECT in ("waits", "many") else EFFECT)  # type: ignore[call-overload,untyped-decorator]
def die(n: int = 0) -> int:
    """End the process."""
    os._exit(7)


@tool(effect="reads")
async def nap(n: int) -> int:
    """Take longer than the other lives."""
    await asyncio.sleep(0.3)
    with (FOLDER / "naps").open("a") as file:
        file.write(f"{n}\n")
    return n


@tool(effect="reads", volatile=True)
def look() -> dict[str, bool]:
    """End the process too."""
    os._exit(7)


def step(name: str, of: str, n: int) -> dict[str, object]:
    return {"step_id": name, "tool": of, "parameters": {"n": n}, "dependencies": []}


WATCH = {"tool": "look", "parameters": {}, "condition": "output.up == `true`", "every_secs": 1}
if EFFECT == "waits":
    PLANS = {
        "deadly": {
            "steps": [{"step_id": "d", "tool": "wait_for_condition", "parameters": WATCH, "dependencies": []}]
        },
        "innocent": {"steps": [step("a", "nap", 3)]},
    }
elif EFFECT == "many":
    PLANS = {
        **{f"deadly-{n}": {"steps": [step("d", "die", n)]} for n in range(3)},
        **{f"innocent-{n}": {"steps": [step("a", "nap", n)]} for n in range(3)},
    }
else:
    PLANS = {
        "deadly": {"steps": [step("a", "nap", 1), step("d", "die", 0), step("b", "nap", 2)]},
        "innocent": {"steps": [step("a", "nap", 3), step("b", "nap", 4)]},
    }


async def drive(*, first: bool) -> None:
    async with Replan(None, tools=[die, nap, look], db=FOLDER / "r.db", evaluation="steps") as replan:
        if first:
            await asyncio.gather(*(replan.run("t", plan=plan, task_id=name) for name, plan in PLANS.items()))
            return
        await asyncio.gather(*(go_on(replan, name) for name in PLANS))


async def go_on(replan: Replan, name: str) -> None:
    with contextlib.suppress(TaskEnded):
        try:
            await replan.resume(name)
        except TaskNotFound:  # another one ended the first process before this one was stored
            await replan.run("t", plan=PLANS[name], task_id=name)


async def ends() -> dict[str, object]:
    async with Replan(None, tools=[die, nap, look], db=FOLDER / "r.db", evaluation="steps") as replan:
        found = {}
        for name in PLANS:
            result = await replan.result(name)
            steps = {one.step_id: [one.status, one.error or ""] for one in result.steps}
            found[name] = {"status": result.status, "steps": steps}
        return found


def main() -> None:
    for n in range(1, MOST + 1):
        child = os.fork()
        if not child:
            asyncio.run(drive(first=n == 1))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            print(json.dumps({"processes": n, **asyncio.run(ends())}))
            return
        if os.waitstatus_to_exitcode(status) != 7:
            raise SystemExit(f"it ended with {status}")
    raise SystemExit("it has no end")


main()
