"""Rows that are measured side by side: each in a process of its own, their rounds interleaved in random order."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from bench.ending import clear_up_when_told

Layers = list[list[str]]
AFTER_SECS = 0.05
"""How long after its end a run is still charged for CPU: what it left to its threads."""
WIDTH = 10


def wide() -> Layers:
    return [[f"s{layer}_{n}" for n in range(WIDTH)] for layer in range(10)]


def chain() -> Layers:
    return [[f"s{n}"] for n in range(100)]


GRAPHS = {"wide": wide, "chain": chain}


# ── the rows ──────────────────────────────────────────────────────────────────


class Ready(NamedTuple):
    """A row that can be run."""

    once: Callable[[], Awaitable[Any]]
    level: Callable[[], Awaitable[str]]
    """How durable its writes are, read back from its connections after a run."""


@dataclass(frozen=True)
class Row:
    """One way of running the graphs."""

    label: str
    level: str
    """What its connections have to say."""
    open: Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]
    needs: str = ""
    """The package without which the row is left out."""
    python: str = ""
    """The interpreter of an environment of its own; empty: this one."""

    @property
    def is_here(self) -> bool:
        if self.python:
            return Path(self.python).exists()
        return not self.needs or importlib.util.find_spec(self.needs) is not None


Rows = Mapping[str, Row]
Ratios = Sequence[tuple[str, str, dict[str, float]]]
"""What is divided by what, with the most that it may be where there is such a bar (wall time)."""


# ── a row's own process ───────────────────────────────────────────────────────


async def serve(rows: Rows, name: str, graph: str, folder: Path) -> None:
    """Run the row once for every line that comes in, and say what it took."""
    telling = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    async with rows[name].open(GRAPHS[graph](), folder) as ready:
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
def worker(module: str, row: Row, name: str, graph: str, folder: Path) -> Iterator[Worker]:
    command = [row.python or sys.executable, "-m", module, "--serve", name, graph, str(folder)]
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


def measure(
    module: str,
    rows: Rows,
    names: list[str],
    graph: str,
    rounds: int,
    prepare: Callable[[str, Path], None] | None = None,
) -> dict[str, Times]:
    """Every row `rounds` times, one after another, in another order each round. `prepare` is given each row's name and folder."""
    found = {name: Times() for name in names}
    shuffle = random.Random(0).shuffle
    with tempfile.TemporaryDirectory() as base, ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in names:
            folder = Path(base) / name
            folder.mkdir()
            if prepare is not None:
                prepare(name, folder)
            workers[name] = stack.enter_context(worker(module, rows[name], name, graph, folder))
            if workers[name].level != rows[name].level:
                raise SystemExit(f"{name} writes with {workers[name].level}, not {rows[name].level}")
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


def tell_times(rows: Rows, names: list[str], found: dict[str, dict[str, Times]]) -> None:
    print(f"\n{'ms a step':44}{'':18} {'wide 10×10':>22} {'chain of 100':>22}")
    print(f"{'':44}{'':18} {'wall':>11}{'CPU':>11} {'wall':>11}{'CPU':>11}")
    for name in names:
        cells = "".join(
            f" {statistics.median(found[graph][name].wall) * 10:11.3f}{statistics.median(found[graph][name].cpu) * 10:11.3f}"
            for graph in GRAPHS
        )
        print(f"{rows[name].label:44}{rows[name].level:18}{cells}")


def tell_ratios(rows: Rows, ratios: Ratios, names: list[str], found: dict[str, dict[str, Times]]) -> None:
    print("\nratios, median of the rounds (quartiles of wall); CPU")
    for above, below, bars in ratios:
        if above not in names or below not in names:
            continue
        print(f"{rows[above].label} / {rows[below].label}")
        for graph in GRAPHS:
            one, other = found[graph][above], found[graph][below]
            low, middle, high = quartiles([a / b for a, b in zip(one.wall, other.wall, strict=True)])
            cpu = statistics.median(a / b for a, b in zip(one.cpu, other.cpu, strict=True))
            bar = bars.get(graph)
            verdict = "" if bar is None else f"  bar {bar}: {'held' if middle <= bar else 'MISSED'}"
            print(f"    {graph:6} {middle:7.2f} ({low:.2f} to {high:.2f});  CPU {cpu:.2f}{verdict}")


def main(
    module: str,
    rows: Rows,
    ratios: Ratios,
    description: str,
    *,
    rounds: int = 15,
    prepare: Callable[[], Callable[[str, Path], None]] | None = None,
) -> None:
    """The command line of such a measure. `prepare` is called once, before the first row."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="rows whose name starts so"
    )
    parser.add_argument("--serve", nargs=3, metavar=("ROW", "GRAPH", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(rows, given.serve[0], given.serve[1], Path(given.serve[2])))
        return
    names = [
        name
        for name, row in rows.items()
        if row.is_here and (not given.only or any(name.startswith(wanted) for wanted in given.only))
    ]
    print(
        f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {given.rounds} rounds"
    )
    clear_up_when_told()
    preparing = prepare() if prepare is not None else None
    found = {graph: measure(module, rows, names, graph, given.rounds, preparing) for graph in GRAPHS}
    tell_times(rows, names, found)
    tell_ratios(rows, ratios, names, found)
