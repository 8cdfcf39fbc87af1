"""How long plans take beside what their graphs ask for.

    python -m bench.makespan                    everything below
    python -m bench.makespan --only virtual     every graph, on a clock where waiting takes no time
    python -m bench.makespan --only real        twenty graphs made short, beside LangGraph and bare asyncio

On the virtual clock each graph of the shared cases runs as a given plan through the whole orchestrator, with its log
in memory: with as many places as steps, and with eight. With eight also with estimates in the plan: exact ones, ones
that are wrong by a lognormal factor (at sigma .5 a third of them by more than 1.65), and such for half of the steps.
Computing takes no time there: what is measured is the order in which steps start and what they wait for. The real
runs add what computing and the log on disk cost; `layers` is what waiting for whole layers costs by itself, to which a
superstep of LangGraph adds its own computing.
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
GUESSES = {"exact": (0.0, 1.0), "sigma .5": (0.5, 1.0), "half .5": (0.5, 0.5)}
"""Spread of the estimates in the plan, and the share of the steps that have one."""
MORE_GUESSES = {**GUESSES, "nine of ten .5": (0.5, 0.9), "sigma 1": (1.0, 1.0)}
SEEDS = 15


@dataclass(frozen=True)
class Found:
    """What became of one graph, each as a ratio."""

    dag: Dag
    unlimited: float
    """Makespan to critical path, a place for each step."""
    workers: float
    """Makespan to lower bound, eight places."""
    guessed: tuple[float, ...]
    """The same with estimates in the plan, for each of GUESSES."""
    listed: float
    """The same for a list schedule that knows the durations."""
    floor: float
    """A closer lower bound to the lower bound: nobody gets below."""

    @classmethod
    def of(cls, dag: Dag, seed: int) -> Found:
        bound = dag.lower_bound(WORKERS)
        return cls(
            dag,
            makespan(dag, len(dag.secs)) / dag.critical_path,
            makespan(dag, WORKERS) / bound,
            tuple(makespan(dag, WORKERS, dag.guessed(*how, seed)) / bound for how in GUESSES.values()),
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
        + "".join(
            f"{statistics.mean(ratios):10.3f}" for ratios in zip(*(one.guessed for one in found), strict=True)
        )
        + f"{mean(lambda one: one.listed):9.3f}{mean(lambda one: one.floor):8.3f}"
    )


def virtual(dags: Iterable[Dag], seed: int) -> None:
    found = [Found.of(dag, seed) for dag in dags]
    measured = [one for one in found if one.dag.measured]
    print(f"{'':38}{'unlimited':>12}{f'{WORKERS} places, to the lower bound; with estimates:':>50}")
    print(
        f"{'':24}{'graphs':>7}{'steps':>7}{'max':>12}{'mean':>10}{'max':>8}"
        + "".join(f"{label:>10}" for label in GUESSES)
        + f"{'listed':>9}{'floor':>8}"
    )
    for app in sorted({one.dag.app for one in measured}):
        print(row(app, [one for one in measured if one.dag.app == app]))
    print(row("all measured", measured))
    print(row("everyday plans", [one for one in found if not one.dag.measured]))
    print(row("all", found))
    worst = max(found, key=lambda one: one.unlimited)
    verdicts = {True: "holds", False: "DOES NOT HOLD"}
    print(
        f"unlimited: at most {worst.unlimited:.6f} of the critical path ({worst.dag.name}); "
        f"the bar {UNLIMITED_BAR} {verdicts[worst.unlimited <= UNLIMITED_BAR]}"
    )
    means = {"no estimates": statistics.mean(one.workers for one in measured)}
    for at, label in enumerate(GUESSES):
        means[f"estimates {label}"] = statistics.mean(one.guessed[at] for one in measured)
    for label, mean in means.items():
        print(
            f"{WORKERS} places, {label}: mean over the measured {mean:.4f} of the lower bound; "
            f"the bar {WORKERS_BAR:.2f} {verdicts[mean <= WORKERS_BAR]}",
            flush=True,
        )


def luck(dags: Iterable[Dag]) -> None:
    """How far the means depend on the seed of the estimates: by list schedules, which take little computing."""
    measured = [dag for dag in dags if dag.measured]
    for label, how in MORE_GUESSES.items():
        means = [
            statistics.mean(
                dag.listed_by_guess(WORKERS, *how, seed) / dag.lower_bound(WORKERS) for dag in measured
            )
            for seed in range(1, SEEDS + 1)
        ]
        print(
            f"list schedule, estimates {label}, {SEEDS} seeds: {min(means):.4f} to {max(means):.4f}, "
            f"mean {statistics.mean(means):.4f}"
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
        virtual(every, asked.seed)
        luck(every)
    if asked.only != "virtual":
        asyncio.run(in_real_time(every, asked.rounds, asked.seed))
