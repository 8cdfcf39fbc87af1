"""Some graphs, made short, run in real time: Replan with its log on disk, LangGraph, and asyncio alone."""

from __future__ import annotations

import asyncio
import operator
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypedDict

from bench.makespan.graphs import Dag
from replan import Replan, tool
from replan.config import Settings

Run: TypeAlias = Callable[[], Awaitable[Any]]
Runner: TypeAlias = Callable[[Dag, Path], AbstractAsyncContextManager[Run]]
"""Prepares a graph; what it gives runs it once."""


def sample(dags: Sequence[Dag], seed: int, each: int = 10) -> list[Dag]:
    """Measured graphs, each of another application, and as many everyday plans, half a second to a second long."""
    draw = random.Random(seed)
    apps = sorted({dag.app for dag in dags if dag.measured})
    picked = [draw.choice([dag for dag in dags if dag.app == app]) for app in sorted(draw.sample(apps, each))]
    picked += draw.sample([dag for dag in dags if not dag.measured], each)
    return [dag.scaled(draw.uniform(0.5, 1.0)) for dag in picked]


async def compare(dag: Dag, runners: Mapping[str, Runner], rounds: int, folder: Path) -> dict[str, float]:
    """Median seconds with each runner, which take turns."""
    found: dict[str, list[float]] = {label: [] for label in runners}
    async with AsyncExitStack() as stack:
        runs = {
            label: await stack.enter_async_context(runner(dag, folder)) for label, runner in runners.items()
        }
        for _ in range(rounds):
            for label, once in runs.items():
                started = time.perf_counter()
                await once()
                found[label].append(time.perf_counter() - started)
    return {label: statistics.median(secs) for label, secs in found.items()}


# ── Replan ────────────────────────────────────────────────────────────────────


@tool
async def work(step: str, secs: float) -> str:
    """Take some time."""
    await asyncio.sleep(secs)
    return step


def of_replan(synchronous: str) -> Runner:
    @asynccontextmanager
    async def runner(dag: Dag, folder: Path) -> AsyncIterator[Run]:
        settings = Settings.model_validate({"store": {"synchronous": synchronous}})
        plan = dag.plan("work")
        async with Replan(
            tools=[work],
            db=folder / f"replan-{synchronous}.db",
            settings=settings,
            evaluation="steps",
            parallel_max_concurrent=len(dag.secs),
        ) as replan:

            async def once() -> None:
                result = await replan.run(dag.name, plan=plan)
                if not result.is_success:
                    raise RuntimeError(f"{dag.name}: {result.failure}")

            yield once

    return runner


# ── asyncio alone ─────────────────────────────────────────────────────────────


@asynccontextmanager
async def of_asyncio(dag: Dag, _: Path) -> AsyncIterator[Run]:
    order = dag.graph.topological()

    async def once() -> None:
        tasks: dict[str, asyncio.Task[None]] = {}

        async def node(step: str) -> None:
            for need in dag.graph.needs[step]:
                await tasks[need]
            await asyncio.sleep(dag.secs[step])

        for step in order:
            tasks[step] = asyncio.create_task(node(step))
        await asyncio.gather(*tasks.values())

    yield once


# ── LangGraph ─────────────────────────────────────────────────────────────────


class GraphState(TypedDict):
    """What the peer's nodes pass on."""

    out: Annotated[list[str], operator.add]


def of_langgraph(*, saved: bool) -> Runner:
    @asynccontextmanager
    async def runner(dag: Dag, folder: Path) -> AsyncIterator[Run]:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        if not saved:
            yield _langgraph(dag, None)
            return
        async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            yield _langgraph(dag, saver)

    return runner


def _langgraph(dag: Dag, saver: Any) -> Run:
    """One node a step, an edge from what it needs: a superstep begins when all of the one before has ended."""
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(GraphState)
    for step in dag.graph.order:
        graph.add_node(step, _langgraph_node(step, dag.secs[step]))
    for step, needs in dag.graph.needs.items():
        graph.add_edge(list(needs) or START, step)
    graph.add_edge(dag.graph.final(), END)
    compiled = graph.compile(checkpointer=saver)
    count = 0

    async def once() -> None:
        nonlocal count
        count += 1
        config: Any = {"configurable": {"thread_id": str(count)}, "recursion_limit": len(dag.secs) + 10}
        done = await compiled.ainvoke({"out": []}, config)
        if len(done["out"]) != len(dag.secs):
            raise RuntimeError(f"{dag.name}: {len(done['out'])} of {len(dag.secs)} steps were run")

    return once


def _langgraph_node(step: str, secs: float) -> Callable[[Any], Awaitable[dict[str, list[str]]]]:
    async def node(_: Any) -> dict[str, list[str]]:
        await asyncio.sleep(secs)
        return {"out": [step]}

    return node
