"""Processes that are killed: `child.py` forks one for each job that it reads, and tells how it ended.

A job is a line of JSON, `{"mode", "tasks", "folder", "kill"}`. `kill` is where the process kills itself:
`["commit", n, "before" | "after"]`, at its n-th write to the log, or `["call", n, "before" | "after"]`, around the
effect of the n-th call that its tools serve. The answer is the signal that ended it (0: it came to its end).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tasks import MAX_OUTPUT_BYTES, METADATA, PLANS, TOOLS, World, die

import replan.store.sqlite  # noqa: F401 - used by every process to come: imported once, here
from replan import Replan
from replan.config import Settings
from replan.errors import TaskEnded, TaskNotFound
from replan.ports import Store


class KillingStore:
    """A store that counts its writes, and kills the process right before or after one of them."""

    def __init__(self, inner: Store, kill: list[Any] | None) -> None:
        self._inner = inner
        self._kill = tuple(kill[1:]) if kill and kill[0] == "commit" else None
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _count(self) -> Callable[..., None]:
        """Count a write that is about to be made; what to call once it is on disk."""
        self.writes += 1
        if self._kill == (self.writes, "before"):
            die()
        last = self._kill == (self.writes, "after")
        return lambda *_: die() if last else None

    async def create(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        made = await self._inner.create(*args, **more)
        done()
        return made

    async def claim(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        claim = await self._inner.claim(*args, **more)
        done()
        return claim

    async def release(self, *args: Any) -> None:
        done = self._count()
        await self._inner.release(*args)
        done()

    async def signal(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        record = await self._inner.signal(*args, **more)
        done()
        return record

    def append(self, *args: Any, **more: Any) -> Any:
        done = self._count()
        future = self._inner.append(*args, **more)
        if future.done():  # it was committed at once: nothing may happen in between
            done()
        else:
            future.add_done_callback(done)
        return future


class KillableReplan(Replan):
    """`Replan` on a `KillingStore`."""

    kill: list[Any] | None = None

    async def open(self) -> None:
        await super().open()
        self.store = KillingStore(self.service.parts.store, self.kill)
        self.service.parts.store = self.store  # type: ignore[assignment]


def opened(folder: Path, kill: list[Any] | None = None, many: int = 10) -> KillableReplan:
    """A Replan with the tools of the tasks, on the folder's database: a file, or the one whose address it has."""
    address = folder / "address"
    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": many}})
    made = KillableReplan(
        tools=TOOLS,
        db=address.read_text() if address.exists() else folder / "log.db",
        settings=settings,
        evaluation="steps",
        max_output_bytes=MAX_OUTPUT_BYTES,
    )
    made.kill = kill
    World.folder = folder
    World.calls = 0
    World.kill_at = (kill[1], kill[2]) if kill and kill[0] == "call" else None
    return made


async def run(replan: Replan, task_id: str) -> None:
    """Run a task from its start. Its id is the name of its plan, and perhaps a number."""
    plan = {"steps": PLANS[task_id.partition(".")[0]]}
    await replan.run(f"do {task_id}", task_id=task_id, plan=plan, metadata=METADATA)


async def resume(replan: Replan, task_id: str) -> None:
    """Drive on a task that was killed; one that was never accepted is handed in again."""
    try:
        await replan.resume(task_id, secrets={"token": SecretStr(str(METADATA["token"]))})
    except TaskNotFound:
        await run(replan, task_id)
    except TaskEnded:
        pass


async def work(mode: str, tasks: list[str], folder: Path, kill: list[Any] | None) -> None:
    act = {"run": run, "resume": resume}[mode]
    async with opened(folder, kill, max(10, len(tasks))) as replan:
        World.cancel = lambda task_id: replan.cancel(task_id, reason="enough")
        await asyncio.gather(*(act(replan, task_id) for task_id in tasks))
        results = {task_id: (await replan.result(task_id)).model_dump(mode="json") for task_id in tasks}
        writes = replan.store.writes
    (folder / "result.json").write_text(
        json.dumps({"tasks": results, "writes": writes, "calls": World.calls})
    )


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio.run(work(job["mode"], job["tasks"], Path(job["folder"]), job["kill"]))
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the test has to see it
                Path(job["folder"], "traceback").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
