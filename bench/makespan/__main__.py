"""How long plans take beside what their graphs ask for.

    python -m bench.makespan                    everything below
    python -m bench.makespan --only virtual     every graph, on a clock where waiting takes no time
    python -m bench.makespan --only real        twenty graphs made short, beside LangGraph and bare asyncio

On the virtual clock each graph of the shared cases runs as a given plan through the whole orchestrator, with its log
in memory: with as many places as steps, and with eight. Computing takes no time there: what is measured is the order
in which steps start and what they wait for. The real runs add what computing and the log on disk cost; `layers` is
what waiting for whole layers costs by itself, to which a superstep of LangGraph adds its own computing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.makespan import real
from bench.makespan.graphs import Dag, read
from bench.makespan.virtual import makespan

WORKERS = 8
UNLIMITED_BAR = 1.02
WORKERS_BAR = 1.10


@dataclass(frozen=True)
class Found:
    """What became of one graph, each as a ratio."""

    dag: Dag
    unlimited: float
    """Makespan to critical path, a place for each step."""
    workers: float
    """Makespan to lower bound."""
    listed: float
    """The same for a list schedule that knows the durations."""
    floor: float
    """A closer lower bound to the lower bound: nobody gets below."""

    @classmethod
    def of(cls, dag: Dag) -> Found:
        bound = dag.lower_bound(WORKERS)
        return cls(
            dag,
            makespan(dag, len(dag.secs)) / dag.critical_path,
            makespan(dag, WORKERS) / bound,
            dag.listed(WORKERS) / bound,
            dag.floor(WORKERS) / bound,
        )


def row(label: str, found: Sequence[Found]) -> str:
    def mean(of: Callable[[Found], float]) -> float:
        return statistics.mean(map(of, found))

    return (
        f"{label:24}{len(found):7}{sum(len(one.dag.secs) for one in found):7}"
        f"{max(one.unlimited for one in found):12.4f}"
        f"{mean(lambda one: one.workers):10.3f}{max(one.workers for one in found):8.3f}"
        f"{mean(lambda one: one.listed):10.3f}{mean(lambda one: one.workers / one.listed):11.3f}"
        f"{mean(lambda one: one.floor):8.3f}"
    )


def virtual(dags: Iterable[Dag]) -> None:
    found = [Found.of(dag) for dag in dags]
    measured = [one for one in found if one.dag.measured]
    print(f"{'':38}{'unlimited':>12}{f'{WORKERS} places, to the lower bound':>47}")
    print(
        f"{'':24}{'graphs':>7}{'steps':>7}{'max':>12}{'mean':>10}{'max':>8}{'listed':>10}{'to listed':>11}{'floor':>8}"
    )
    for app in sorted({one.dag.app for one in measured}):
        print(row(app, [one for one in measured if one.dag.app == app]))
    print(row("all measured", measured))
    print(row("everyday plans", [one for one in found if not one.dag.measured]))
    print(row("all", found))
    worst = max(found, key=lambda one: one.unlimited)
    mean = statistics.mean(one.workers for one in measured)
    verdicts = {True: "holds", False: "DOES NOT HOLD"}
    print(
        f"unlimited: at most {worst.unlimited:.6f} of the critical path ({worst.dag.name}); "
        f"the bar {UNLIMITED_BAR} {verdicts[worst.unlimited <= UNLIMITED_BAR]}"
    )
    print(
        f"{WORKERS} places: mean over the measured {mean:.4f} of the lower bound; "
        f"the bar {WORKERS_BAR:.2f} {verdicts[mean <= WORKERS_BAR]}",
        flush=True,
    )


async def in_real_time(dags: Sequence[Dag], rounds: int, seed: int) -> None:
    runners: dict[str, real.Runner] = {
        "asyncio": real.of_asyncio,
        "Replan": real.of_replan("normal"),
        "Replan full": real.of_replan("full"),
    }
    if importlib.util.find_spec("langgraph"):
        runners["LangGraph"] = real.of_langgraph(saved=False)
        runners["LG, saver"] = real.of_langgraph(saved=True)
    picked = real.sample(dags, seed)
    print(f"seconds to critical path, median of {rounds} runs; places for all")
    print(f"{'':40}{'steps':>6}{'secs':>7}{'layers':>9}" + "".join(f"{label:>12}" for label in runners))
    ratios: dict[bool, dict[str, list[float]]] = {
        kind: {label: [] for label in runners} for kind in (True, False)
    }
    with tempfile.TemporaryDirectory() as name:
        for number, dag in enumerate(picked):
            folder = Path(name) / str(number)
            folder.mkdir()
            secs = await real.compare(dag, runners, rounds, folder)
            cells = ""
            for label in runners:
                ratio = secs[label] / dag.critical_path
                ratios[dag.measured][label].append(ratio)
                cells += f"{ratio:12.3f}"
            print(
                f"{dag.name:40}{len(dag.secs):6}{dag.critical_path:7.2f}{dag.layered / dag.critical_path:9.3f}{cells}",
                flush=True,
            )
    both = {label: ratios[True][label] + ratios[False][label] for label in runners}
    for text, of in (("measured", ratios[True]), ("everyday", ratios[False]), ("all", both)):
        print(
            f"{'median, ' + text:62}" + "".join(f"{statistics.median(of[label]):12.3f}" for label in runners)
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Makespans of measured workflows and everyday plans.", prog="python -m bench.makespan"
    )
    parser.add_argument("--only", choices=["virtual", "real"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    every = read()
    print(
        f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}",
        flush=True,
    )
    if asked.only != "real":
        virtual(every)
    if asked.only != "virtual":
        asyncio.run(in_real_time(every, asked.rounds, asked.seed))
