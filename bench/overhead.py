"""What a step that does nothing costs, with every event stored, beside what others cost for the same graph.

    python -m bench.overhead            Replan, bare asyncio, bare SQLite commits; LangGraph where installed
    python -m bench.overhead --rounds 9

Two graphs: 10 layers × 10 wide (each step needs the whole layer before) and a chain of 100. The tool has an
effect (`once`), so its start is durable before the call. Prints medians of wall and CPU time a step, and ratios.
"""

import argparse
import asyncio
import importlib.util
import operator
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from replan import Replan, tool
from replan.config import Settings

Layers = list[list[str]]


@tool
async def nothing(i: int) -> int:
    """Do nothing."""
    return i


def wide() -> Layers:
    return [[f"s{layer}_{n}" for n in range(10)] for layer in range(10)]


def chain() -> Layers:
    return [[f"s{n}"] for n in range(100)]


def plan_of(layers: Layers) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    before: list[str] = []
    for layer in layers:
        for name in layer:
            steps.append(
                {"step_id": name, "tool": "nothing", "parameters": {"i": len(steps)}, "dependencies": before}
            )
        before = layer
    return {"steps": steps}


async def timed(rounds: int, once: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Median wall and CPU seconds of one run, after one to warm up."""
    await once()
    wall, cpu = [], []
    for _ in range(rounds):
        started, used = time.perf_counter(), time.process_time()
        await once()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    return statistics.median(wall), statistics.median(cpu)


async def of_replan(layers: Layers, rounds: int, synchronous: str, folder: Path) -> tuple[float, float]:
    settings = Settings.model_validate({"store": {"synchronous": synchronous}})
    async with Replan(
        tools=[nothing], db=folder / f"{synchronous}.db", settings=settings, evaluation="steps"
    ) as replan:

        async def once() -> None:
            result = await replan.run("nothing", plan=plan_of(layers))
            assert result.is_success, result.failure

        return await timed(rounds, once)


async def of_asyncio(layers: Layers, rounds: int) -> tuple[float, float]:
    async def once() -> None:
        for layer in layers:
            await asyncio.gather(*(nothing(n) for n, _ in enumerate(layer)))

    return await timed(rounds, once)


async def of_commits(layers: Layers, rounds: int, synchronous: str, folder: Path) -> tuple[float, float]:
    """One commit a layer of four events a step: the least that a durable log can do."""
    db = sqlite3.connect(folder / f"bare-{synchronous}.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, data TEXT)")
    data = "x" * 200

    async def once() -> None:
        for layer in layers:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO event (data) VALUES (?)", [(data,)] * (4 * len(layer)))
            db.execute("COMMIT")

    found = await timed(rounds, once)
    db.close()
    return found


class GraphState(TypedDict):
    """What the peer's nodes pass on."""

    out: Annotated[list[int], operator.add]


async def of_langgraph(layers: Layers, rounds: int, folder: Path, *, saved: bool) -> tuple[float, float]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(GraphState)
    for layer in layers:
        for name in layer:
            graph.add_node(name, _langgraph_node)
    before: list[str] = []
    for layer in layers:
        for name in layer:
            graph.add_edge(before or START, name)
        before = layer
    graph.add_edge(before, END)
    count = 0

    async def run(compiled: Any) -> tuple[float, float]:
        async def once() -> None:
            nonlocal count
            count += 1
            config = {"configurable": {"thread_id": str(count)}, "recursion_limit": 500}
            await compiled.ainvoke({"out": []}, config)

        return await timed(rounds, once)

    if not saved:
        return await run(graph.compile())
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        return await run(graph.compile(checkpointer=saver))


async def _langgraph_node(state: Any) -> dict[str, list[int]]:
    return {"out": [1]}


async def main(rounds: int) -> None:
    print(
        f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}, {rounds} rounds"
    )
    print(f"{'':34} {'wide 10×10':>22} {'chain of 100':>22}")
    print(f"{'ms a step':34} {'wall':>11}{'CPU':>11} {'wall':>11}{'CPU':>11}")
    graphs = [wide(), chain()]
    with tempfile.TemporaryDirectory() as name:
        rows: list[tuple[str, Callable[[Layers, Path], Awaitable[tuple[float, float]]]]] = [
            ("bare asyncio", lambda g, f: of_asyncio(g, rounds)),
            ("bare SQLite commits, normal", lambda g, f: of_commits(g, rounds, "normal", f)),
            ("bare SQLite commits, full", lambda g, f: of_commits(g, rounds, "full", f)),
            ("Replan, normal", lambda g, f: of_replan(g, rounds, "normal", f)),
            ("Replan, full", lambda g, f: of_replan(g, rounds, "full", f)),
        ]
        if importlib.util.find_spec("langgraph"):
            rows.append(("LangGraph, nothing saved", lambda g, f: of_langgraph(g, rounds, f, saved=False)))
            rows.append(
                ("LangGraph, SQLite saver (full)", lambda g, f: of_langgraph(g, rounds, f, saved=True))
            )
        for label, measure in rows:
            cells = ""
            for number, graph in enumerate(graphs):
                folder = Path(name) / f"{label}-{number}"
                folder.mkdir()
                wall, cpu = await measure(graph, folder)
                cells += f" {wall * 10:11.3f}{cpu * 10:11.3f}"
            print(f"{label:34}{cells}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Overhead of a step that does nothing.")
    parser.add_argument("--rounds", type=int, default=15)
    asyncio.run(main(parser.parse_args().rounds))
    sys.exit(0)
