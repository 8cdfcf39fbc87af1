"""What a step that does nothing costs, with every event stored, beside what others cost for the same graph.

    python -m bench.overhead            Replan, bare asyncio, bare SQLite commits; LangGraph and DBOS where installed
    python -m bench.overhead --rounds 9 --only replan --only langgraph

Two graphs: 10 layers × 10 wide (each step needs the whole layer before) and a chain of 100. The tool has an
effect (`once`), so its start is durable before the call; its parameters are distinct. Each row has a process of its
own, and the rounds are interleaved in random order, so that a noisy minute hits all rows alike. Prints medians of
wall and CPU time a step, and ratios: medians of the ratios of each round.

Every database is in WAL mode unless its row says otherwise, and its level of durability is read back from the
connection that writes.
"""

import asyncio
import itertools
import operator
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.rows import WIDTH, Layers, Ready, Row, main
from replan import Replan, tool
from replan.config import Settings

# ── the graphs ────────────────────────────────────────────────────────────────


@tool
async def nothing(i: int) -> int:
    """Do nothing."""
    return i


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


# ── the rows ──────────────────────────────────────────────────────────────────


def levels(connections: list[sqlite3.Connection]) -> str:
    """`journal/synchronous` of the connections, each once."""
    names = ["off", "normal", "full", "extra"]
    found = {
        f"{c.execute('PRAGMA journal_mode').fetchone()[0]}/{names[c.execute('PRAGMA synchronous').fetchone()[0]]}"
        for c in connections
    }
    return " and ".join(sorted(found))


async def _nothing_stored() -> str:
    return "-"


def replan_row(synchronous: str) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        # The peers run as many at a time as there are: so does Replan here.
        settings = Settings.model_validate(
            {"store": {"synchronous": synchronous}, "orchestrator": {"parallel_max_concurrent": WIDTH}}
        )
        opened: list[sqlite3.Connection] = []

        def note(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "sqlite3.connect/handle":
                opened.append(arguments[0])

        sys.addaudithook(note)
        plan = plan_of(layers)
        async with Replan(
            tools=[nothing], db=folder / "replan.db", settings=settings, evaluation="steps"
        ) as replan:

            async def once() -> None:
                result = await replan.run("nothing", plan=plan)
                assert result.is_success, result.failure

            async def level() -> str:
                # The first is the writer's. At `full` the third, which never waits for the disk, writes claims only.
                return levels(opened if synchronous == "normal" else opened[:1])

            yield Ready(once, level)

    return row


@asynccontextmanager
async def asyncio_row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
    async def once() -> None:
        for layer in layers:
            await asyncio.gather(*(nothing(n) for n, _ in enumerate(layer)))

    yield Ready(once, _nothing_stored)


def commits_row(synchronous: str) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """One commit a layer of four events a step: the least that a durable log can do."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, data TEXT)")
        data = "x" * 200

        async def once() -> None:
            for layer in layers:
                db.execute("BEGIN IMMEDIATE")
                db.executemany("INSERT INTO event (data) VALUES (?)", [(data,)] * (4 * len(layer)))
                db.execute("COMMIT")

        async def level() -> str:
            return levels([db])

        yield Ready(once, level)
        db.close()

    return row


class GraphState(TypedDict):
    """What the peer's nodes pass on."""

    out: Annotated[list[int], operator.add]


async def _langgraph_node(state: Any) -> dict[str, list[int]]:
    return {"out": [1]}


def langgraph_graph(layers: Layers) -> Any:
    """The graph, to be compiled with a checkpointer."""
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
    return graph


def langgraph_once(compiled: Any, **options: str) -> Callable[[], Awaitable[None]]:
    """Run it once, on a thread of its own."""
    threads = itertools.count()

    async def once() -> None:
        config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": 500}
        done = await compiled.ainvoke({"out": []}, config, **options)
        assert len(done["out"]) == 100

    return once


def langgraph_row(
    synchronous: str | None, durability: str = "async"
) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """`durability`: `async` saves beside the next layer (the default there), `sync` before it, as Replan does."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        graph = langgraph_graph(layers)
        if synchronous is None:
            yield Ready(langgraph_once(graph.compile()), _nothing_stored)
            return
        async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            await saver.setup()
            await saver.conn.execute(f"PRAGMA synchronous = {synchronous}")

            async def level() -> str:
                return await saver.conn._execute(lambda: levels([saver.conn._conn]))

            yield Ready(langgraph_once(graph.compile(checkpointer=saver), durability=durability), level)

    return row


@contextmanager
def dbos_flow(layers: Layers, url: str) -> Iterator[Callable[[], Awaitable[None]]]:
    """Run a workflow of async steps once, one `gather` a layer."""
    from dbos import DBOS, DBOSConfig

    @DBOS.step()
    async def step(i: int) -> int:
        return i

    @DBOS.workflow()
    async def flow(widths: list[int]) -> int:
        done = 0
        for width in widths:
            done += len(await asyncio.gather(*(step(done + n) for n in range(width))))
        return done

    DBOS(config=DBOSConfig(name="bench", system_database_url=url, log_level="ERROR"))
    DBOS.launch()

    async def once() -> None:
        assert await flow([len(layer) for layer in layers]) == 100

    try:
        yield once
    finally:
        DBOS.destroy()


def dbos_row(journal: str, synchronous: str) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """As it comes DBOS leaves SQLite's own defaults: delete, full."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        import sqlalchemy

        opened: list[sqlite3.Connection] = []

        @sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
        def set_up(connection: sqlite3.Connection, _: object) -> None:
            opened.append(connection)
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")

        async def level() -> str:
            return levels(opened)

        with dbos_flow(layers, f"sqlite:///{folder / 'dbos.db'}") as once:
            yield Ready(once, level)

    return row


ROWS = {
    "asyncio": Row("bare asyncio", "-", asyncio_row),
    "commits-normal": Row("bare SQLite commits, normal", "wal/normal", commits_row("normal")),
    "commits-full": Row("bare SQLite commits, full", "wal/full", commits_row("full")),
    "replan-normal": Row("Replan, normal", "wal/normal", replan_row("normal")),
    "replan-full": Row("Replan, full", "wal/full", replan_row("full")),
    "langgraph": Row("LangGraph, nothing saved", "-", langgraph_row(None), "langgraph"),
    "langgraph-normal": Row(
        "LangGraph, SQLite saver, normal", "wal/normal", langgraph_row("normal"), "langgraph"
    ),
    "langgraph-full": Row("LangGraph, SQLite saver, full", "wal/full", langgraph_row("full"), "langgraph"),
    "langgraph-sync-full": Row(
        "LangGraph, saver in step, full", "wal/full", langgraph_row("full", "sync"), "langgraph"
    ),
    "dbos-normal": Row("DBOS, SQLite, normal", "wal/normal", dbos_row("wal", "normal"), "dbos"),
    "dbos-full": Row("DBOS, SQLite, full", "wal/full", dbos_row("wal", "full"), "dbos"),
    "dbos-as-it-comes": Row(
        "DBOS, SQLite as it comes, full", "delete/full", dbos_row("delete", "full"), "dbos"
    ),
}

RATIOS: list[tuple[str, str, dict[str, float]]] = [
    ("replan-full", "langgraph-full", {"wide": 0.2, "chain": 0.3}),
    ("replan-full", "langgraph-sync-full", {}),
    ("replan-normal", "langgraph-normal", {}),
    ("replan-normal", "langgraph", {"wide": 0.5, "chain": 0.6}),
    ("replan-normal", "dbos-normal", {}),
    ("replan-full", "dbos-full", {}),
    ("replan-full", "dbos-as-it-comes", {}),
    ("replan-normal", "asyncio", {}),
    ("replan-normal", "commits-normal", {}),
    ("replan-full", "commits-full", {}),
]


if __name__ == "__main__":
    main("bench.overhead", ROWS, RATIOS, "Overhead of a step that does nothing.")
