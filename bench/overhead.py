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

import argparse
import asyncio
import importlib.util
import json
import operator
import os
import platform
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypedDict

from replan import Replan, tool
from replan.config import Settings

Layers = list[list[str]]
AFTER_SECS = 0.05
"""How long after its end a run is still charged for CPU: what it left to its threads."""


# ── the graphs ────────────────────────────────────────────────────────────────


@tool
async def nothing(i: int) -> int:
    """Do nothing."""
    return i


def wide() -> Layers:
    return [[f"s{layer}_{n}" for n in range(10)] for layer in range(10)]


def chain() -> Layers:
    return [[f"s{n}"] for n in range(100)]


WIDTH = 10
GRAPHS = {"wide": wide, "chain": chain}


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


class Ready(NamedTuple):
    """A row that can be run."""

    once: Callable[[], Awaitable[Any]]
    level: Callable[[], Awaitable[str]]
    """How durable its writes are, read back from its connections after a run."""


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


def langgraph_row(
    synchronous: str | None, durability: str = "async"
) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """`durability`: `async` saves beside the next layer (the default there), `sync` before it, as Replan does."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
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

        def ready(compiled: Any, level: Callable[[], Awaitable[str]], **options: str) -> Ready:
            async def once() -> None:
                nonlocal count
                count += 1
                config = {"configurable": {"thread_id": str(count)}, "recursion_limit": 500}
                done = await compiled.ainvoke({"out": []}, config, **options)
                assert len(done["out"]) == 100

            return Ready(once, level)

        if synchronous is None:
            yield ready(graph.compile(), _nothing_stored)
            return
        async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            await saver.setup()
            await saver.conn.execute(f"PRAGMA synchronous = {synchronous}")

            async def level() -> str:
                return await saver.conn._execute(lambda: levels([saver.conn._conn]))

            yield ready(graph.compile(checkpointer=saver), level, durability=durability)

    return row


def dbos_row(journal: str, synchronous: str) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """A workflow of async steps, one `gather` a layer. As it comes DBOS leaves SQLite's own defaults: delete, full."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        import sqlalchemy
        from dbos import DBOS, DBOSConfig

        opened: list[sqlite3.Connection] = []

        @sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
        def set_up(connection: sqlite3.Connection, _: object) -> None:
            opened.append(connection)
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")

        @DBOS.step()
        async def step(i: int) -> int:
            return i

        @DBOS.workflow()
        async def flow(widths: list[int]) -> int:
            done = 0
            for width in widths:
                done += len(await asyncio.gather(*(step(done + n) for n in range(width))))
            return done

        url = f"sqlite:///{folder / 'dbos.db'}"
        DBOS(config=DBOSConfig(name="bench", system_database_url=url, log_level="ERROR"))
        DBOS.launch()

        async def once() -> None:
            assert await flow([len(layer) for layer in layers]) == 100

        async def level() -> str:
            return levels(opened)

        try:
            yield Ready(once, level)
        finally:
            DBOS.destroy()

    return row


@dataclass(frozen=True)
class Row:
    """One way of running the graphs."""

    label: str
    level: str
    """What its connections have to say."""
    open: Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]
    needs: str = ""
    """The package without which the row is left out."""


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
"""What is divided by what, with the most that it may be where there is such a bar (wall time)."""


# ── a row's own process ───────────────────────────────────────────────────────


async def serve(name: str, graph: str, folder: Path) -> None:
    """Run the row once for every line that comes in, and say what it took."""
    telling = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    async with ROWS[name].open(GRAPHS[graph](), folder) as ready:
        await ready.once()
        await ready.once()
        told: dict[str, Any] = {"level": await ready.level()}
        while True:
            print(json.dumps(told), file=telling, flush=True)
            if not await asyncio.to_thread(sys.stdin.readline):
                return
            started, used = time.perf_counter(), time.process_time()
            await ready.once()
            wall = time.perf_counter() - started
            await asyncio.sleep(AFTER_SECS)
            told = {"wall": wall, "cpu": time.process_time() - used}


class Worker:
    """A row's process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name
        self.level: str = self._told()["level"]

    def run(self) -> tuple[float, float]:
        _pipe(self._process.stdin).write("\n")
        _pipe(self._process.stdin).flush()
        told = self._told()
        return told["wall"], told["cpu"]

    def _told(self) -> Any:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise SystemExit(f"the row {self._name!r} ended with {self._process.wait()}")
        return json.loads(line)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def worker(name: str, graph: str, folder: Path) -> Iterator[Worker]:
    command = [sys.executable, "-m", "bench.overhead", "--serve", name, graph, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Worker(process, name)
        finally:
            _pipe(process.stdin).close()
            process.wait()


# ── measuring and telling ─────────────────────────────────────────────────────


@dataclass
class Times:
    """Seconds of each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def measure(names: list[str], graph: str, rounds: int) -> dict[str, Times]:
    """Every row `rounds` times, one after another, in another order each round."""
    found = {name: Times() for name in names}
    shuffle = random.Random(0).shuffle
    with tempfile.TemporaryDirectory() as base, ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in names:
            folder = Path(base) / name
            folder.mkdir()
            workers[name] = stack.enter_context(worker(name, graph, folder))
            if workers[name].level != ROWS[name].level:
                raise SystemExit(f"{name} writes with {workers[name].level}, not {ROWS[name].level}")
        for _ in range(rounds):
            order = list(names)
            shuffle(order)
            for name in order:
                wall, cpu = workers[name].run()
                found[name].wall.append(wall)
                found[name].cpu.append(cpu)
    return found


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return low, middle, high


def tell_times(names: list[str], found: dict[str, dict[str, Times]]) -> None:
    print(f"\n{'ms a step':34}{'':11} {'wide 10×10':>22} {'chain of 100':>22}")
    print(f"{'':34}{'':11} {'wall':>11}{'CPU':>11} {'wall':>11}{'CPU':>11}")
    for name in names:
        cells = "".join(
            f" {statistics.median(found[graph][name].wall) * 10:11.3f}{statistics.median(found[graph][name].cpu) * 10:11.3f}"
            for graph in GRAPHS
        )
        print(f"{ROWS[name].label:34}{ROWS[name].level:11}{cells}")


def tell_ratios(names: list[str], found: dict[str, dict[str, Times]]) -> None:
    print("\nratios, median of the rounds (quartiles of wall); CPU")
    for above, below, bars in RATIOS:
        if above not in names or below not in names:
            continue
        print(f"{ROWS[above].label} / {ROWS[below].label}")
        for graph in GRAPHS:
            one, other = found[graph][above], found[graph][below]
            low, middle, high = quartiles([a / b for a, b in zip(one.wall, other.wall, strict=True)])
            cpu = statistics.median(a / b for a, b in zip(one.cpu, other.cpu, strict=True))
            bar = bars.get(graph)
            verdict = "" if bar is None else f"  bar {bar}: {'held' if middle <= bar else 'MISSED'}"
            print(f"    {graph:6} {middle:7.2f} ({low:.2f} to {high:.2f});  CPU {cpu:.2f}{verdict}")


def main(rounds: int, only: list[str]) -> None:
    names = [
        name
        for name, row in ROWS.items()
        if (not row.needs or importlib.util.find_spec(row.needs))
        and (not only or any(name.startswith(wanted) for wanted in only))
    ]
    load = os.getloadavg()[0]
    print(
        f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}, "
        f"{os.cpu_count()} cores, load {load:.1f}, {rounds} rounds"
    )
    found = {graph: measure(names, graph, rounds) for graph in GRAPHS}
    tell_times(names, found)
    tell_ratios(names, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Overhead of a step that does nothing.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="rows whose name starts so"
    )
    parser.add_argument("--serve", nargs=3, metavar=("ROW", "GRAPH", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve[0], given.serve[1], Path(given.serve[2])))
    else:
        main(given.rounds, given.only)
