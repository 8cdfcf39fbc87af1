"""Thousands of tasks in one process, each in the middle of a step: memory for each, and starts a second.

Every measurement has a process of its own. The peer is LangGraph: one `ainvoke` a task, its node waits likewise.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypedDict

from bench.scale.measure import row, rss_kib

SIZES = (1_000, 10_000)
BAR_KIB = 10.0


class Gate:
    """Where the tools wait, and how many do."""

    def __init__(self, holds: int = 0) -> None:
        self.open = asyncio.Event()
        self.full = asyncio.Event()
        self._missing = holds
        if not holds:
            self.open.set()

    async def through(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.full.set()
        await self.open.wait()


class Probe:
    """Takes the numbers around the idle time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.before = rss_kib()
        self.begun, self.cpu = time.perf_counter(), time.process_time()

    def waiting(self) -> None:
        """All tasks wait now."""
        self.wall = time.perf_counter() - self.begun
        self.cpu = time.process_time() - self.cpu
        self.idle = (rss_kib() - self.before) / self.count
        self.begun, self.used = time.perf_counter(), time.process_time()

    def ended(self, right: bool) -> dict[str, Any]:
        """All tasks have ended."""
        return {
            "KiB a task": self.idle,
            "starts/s": self.count / self.wall,
            "CPU ms a start": self.cpu / self.count * 1e3,
            "ends/s": self.count / (time.perf_counter() - self.begun),
            "CPU ms an end": (time.process_time() - self.used) / self.count * 1e3,
            "right": right,
        }


async def of_replan(count: int, folder: Path) -> dict[str, Any]:
    from replan import Replan, tool
    from replan.config import Settings

    gate = Gate()  # an open one, for the first tasks

    @tool(effect="reads")
    async def waits(i: int) -> int:
        """Wait to be let go."""
        await gate.through()
        return i

    def plan(i: int) -> dict[str, Any]:
        return {"steps": [{"step_id": "only", "tool": "waits", "parameters": {"i": i}}]}

    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": count}})
    async with Replan(tools=[waits], db=folder / "log.db", settings=settings, evaluation="steps") as replan:
        for n in range(50):
            await replan.run("warm up", plan=plan(n))
        gate = Gate(count)
        probe = Probe(count)
        ids = [await replan.submit("wait", plan=plan(n), timeout=1e6) for n in range(count)]
        await gate.full.wait()
        probe.waiting()
        gate.open.set()
        results = [await replan.wait(task_id) for task_id in ids]
        right = all(result.succeeded and result.output == n for n, result in enumerate(results))
        return probe.ended(right and len(await replan.tasks(["succeeded"], limit=count * 2)) == count + 50)


class PeerState(TypedDict):
    """What the peer's node gets and gives."""

    i: int


async def of_langgraph(count: int, folder: Path, *, saved: bool) -> dict[str, Any]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    gate = Gate()

    async def waits(state: PeerState) -> dict[str, int]:
        await gate.through()
        return {"i": state["i"]}

    graph = StateGraph(PeerState)
    graph.add_node("only", waits)
    graph.add_edge(START, "only")
    graph.add_edge("only", END)

    async def measured(compiled: Any) -> dict[str, Any]:
        def start(n: int, name: str) -> asyncio.Task[Any]:
            config = {"configurable": {"thread_id": f"{name}{n}"}}
            return asyncio.create_task(compiled.ainvoke({"i": n}, config))

        for n in range(50):
            await start(n, "warm")
        gate = Gate(count)
        probe = Probe(count)
        tasks = [start(n, "task") for n in range(count)]
        await gate.full.wait()
        probe.waiting()
        gate.open.set()
        results = [await task for task in tasks]
        return probe.ended(all(result["i"] == n for n, result in enumerate(results)))

    if not saved:
        return await measured(graph.compile())
    async with AsyncSqliteSaver.from_conn_string(str(folder / "peer.db")) as saver:
        return await measured(graph.compile(checkpointer=saver))


KINDS = {
    "Replan, SQLite log": lambda count, folder: of_replan(count, folder),
    "LangGraph, nothing saved": lambda count, folder: of_langgraph(count, folder, saved=False),
    "LangGraph, SQLite saver": lambda count, folder: of_langgraph(count, folder, saved=True),
}


def measure(kind: str, count: int) -> None:
    """One measurement in this process, as a line of JSON."""
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(asyncio.run(KINDS[kind](count, Path(name)))))


def run() -> None:
    columns = ["tasks", "KiB a task", "starts/s", "CPU ms a start", "ends/s", "CPU ms an end", "right"]
    row("tasks waiting in a step", columns, 15)
    for kind in KINDS:
        if kind.startswith("LangGraph") and importlib.util.find_spec("langgraph") is None:
            print(f"{kind}: not installed (`make .venv/.bench`)")
            continue
        for count in SIZES:
            command = [sys.executable, "-m", "bench.scale.idle", kind, str(count)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            row(kind, [f"{count:,}", *(found[name] for name in columns[1:])], 15)
    print(f"the bar: at most {BAR_KIB:g} KiB for each of Replan's tasks")


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]))
