"""Processes that step into tasks and fork them, and are killed at one of their writes to the log.

One is forked for each line of JSON that is read, `{"folder", "kill"}`: `kill` is `[n, "before" | "after"]` or null. The answer is
the signal that ended it (0: it came to its end), and how many writes it made.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from child import KillingStore

import replan.store.sqlite  # noqa: F401 - used by every process to come: imported once, here
from replan import Replan, tool
from replan.errors import TaskNotFound

JOURNAL = Path()


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody, and say so where a crash leaves it."""
    journal = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{to}\n".encode())
    os.close(journal)
    return f"paid {to}"


class Killing(KillingStore):
    """It counts what forks write, too."""

    async def fork(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        made = await self._inner.fork(*args, **more)
        done()
        return made

    async def take(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        taken = await self._inner.take(*args, **more)
        done()
        return taken

    async def reserve(self, *args: Any) -> None:
        done = self._count()
        await self._inner.reserve(*args)
        done()


def pays(*names: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        needs = [f"p{at - 1}"] if at else []
        steps.append({"step_id": f"p{at}", "tool": "pay", "parameters": {"to": name}, "dependencies": needs})
    return {"steps": steps}


async def play(replan: Replan) -> None:
    """A task that is paused and resumed, a fork of it, and a fork of that: as far as they were not there before."""
    await there(replan, "t", lambda: replan.submit("pay", plan=pays("Ann", "Bob", "Cy"), task_id="t"))
    if not await ended(replan, "t"):
        await step_into(replan, "t")
    half = next(one.seq for one in await replan.history("t") if one.type in ("step_completed", "task_failed"))
    await there(replan, "f", lambda: replan.fork("t", at=max(2, half - 1), fork_id="f"))
    await step_into(replan, "f")
    plan = pays("Bob", "Cy", "Di")  # what is done already does not wait for what is new
    await there(replan, "g", lambda: replan.fork("f", at=half, fork_id="g", plan=plan))
    await step_into(replan, "g")


async def there(replan: Replan, task_id: str, make: Any) -> None:
    try:
        await replan.summary(task_id)
    except TaskNotFound:
        await make()


async def ended(replan: Replan, task_id: str) -> bool:
    return (await replan.result(task_id)).status not in ("waiting", "queued", "executing", "planning")


async def step_into(replan: Replan, task_id: str) -> None:
    """Pause it, if it can be, and see it to its end."""
    from replan.errors import ReplanError

    for act in (
        lambda: replan.pause(task_id),
        lambda: replan.hint(task_id, "be quick"),
        lambda: replan.wait(task_id),
        lambda: replan.resume(task_id),
        lambda: replan.wait(task_id),
    ):
        if not (await replan.service.state(task_id)).ended:
            try:
                async with asyncio.timeout(20):
                    await act()
            except ReplanError:
                continue


async def work(folder: Path, kill: Any) -> int:
    async with Replan(tools=[pay], db=folder / "log.db", evaluation="steps") as replan:
        store = Killing(replan.service.parts.store, ["commit", *kill] if kill else None)
        replan.service.parts.store = store  # type: ignore[assignment]
        await play(replan)
        return store.writes


def main() -> None:
    global JOURNAL
    for line in sys.stdin:
        job = json.loads(line)
        folder = Path(job["folder"])
        JOURNAL = folder / "journal"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                (folder / "writes").write_text(str(asyncio.run(work(folder, job["kill"]))))
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the test has to see it
                (folder / "traceback").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
