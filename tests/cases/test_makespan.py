"""Graphs with durations that nobody here wrote, run as plans: none takes longer than its graph asks for.

On the virtual clock computing takes no time, so that these are statements about the order in which steps start and
what they wait for. A fixed sample runs by default; `-m prove` runs every graph.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step

from replan.core.types import JsonObject
from replan.testing import virtual_time

FILE = Path(__file__).parents[2].parent / "shared" / "cases" / "dags.jsonl"
GRAPHS = {"everyday": 726, "measured": 69}
EVERY = {"everyday": 20, "measured": 10}
WORKERS = 8
UNLIMITED_BAR = 1.02
WORKERS_BAR = 1.10
BY_STEPS = 1.13
"""What counting steps to the end comes to: 1.126; how long they take it cannot see. First come, first served: 1.134."""
GUESSES = {
    "exact": (0.0, 1.0, 1.07),
    "rough": (0.5, 1.0, WORKERS_BAR),
    "rough for half": (0.5, 0.5, BY_STEPS),
}
"""Spread of the estimates, the share of the steps that have one, and what the mean has to keep to.

`python -m bench.makespan --only virtual` shows how far other seeds lie apart: all of them keep to these.
"""
SEED = 1
EXACT = 1e-6
"""How exact ratios are."""


def kind(case: JsonObject) -> str:
    return "measured" if case["kind"].startswith("measured") else "everyday"


@cache
def read() -> dict[str, list[JsonObject]]:
    found: dict[str, list[JsonObject]] = {name: [] for name in GRAPHS}
    if FILE.is_file():
        for line in FILE.read_text("utf-8").splitlines():
            case = json.loads(line)
            found[kind(case)].append(case)
    return found


def cases(every: dict[str, int], *kinds: str) -> list[Any]:
    found = [case for name in kinds for case in read()[name][:: every[name]]]
    if not found:
        reason = (
            f"the shared cases are not beside the repository ({FILE.parent.name} in {FILE.parents[1].name})"
        )
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="no-shared-cases")]
    return [pytest.param(case, id=case["id"]) for case in found]


SAMPLE = cases(EVERY, *GRAPHS)
ALL = cases(dict.fromkeys(GRAPHS, 1), *GRAPHS)


def guessed(case: JsonObject, sigma: float, share: float) -> dict[str, float]:
    """Estimates for so many of the steps, each wrong by a factor that is lognormal around 1."""
    secs = {node["id"]: node["duration_ms"] / 1000 for node in case["nodes"]}
    draw = random.Random(f"{SEED} {case['id']}")
    some = draw.sample(list(secs), round(share * len(secs)))
    return {name: secs[name] * draw.lognormvariate(0, sigma) for name in some}


def run(case: JsonObject, workers: int, estimated: Mapping[str, float] | None = None) -> tuple[Ran, float]:
    """The graph as a plan, a tool for each step; what became of it, and its makespan in ms."""
    said = {name: {"estimated_secs": secs} for name, secs in (estimated or {}).items()}
    needs: dict[str, list[str]] = {node["id"]: [] for node in case["nodes"]}
    for before, after in case["edges"]:
        needs[after].append(before)
    ms = {node["id"]: node["duration_ms"] for node in case["nodes"]}
    tools = {name: FakeTool(delay_secs=ms[name] / 1000) for name in needs}

    async def main() -> Ran:
        wanted = plan(*(step(name, name, *needs[name], **said.get(name, {})) for name in needs))
        budget = {"task_timeout_secs": None}
        return await (await bench(tools)).run(wanted, parallel_max_concurrent=workers, budget=budget)

    ran = virtual_time(main()).check()
    assert ran.result.is_success, ran.result.failure
    assert ran.source.counts == dict.fromkeys(needs, 1)
    return ran, (ran.records[-1].ts - ran.records[0].ts) * 1000


def prove(case: JsonObject) -> None:
    metrics = case["metrics_ms"]
    critical, serial = metrics["critical_path"], metrics["serial"]

    _, alone = run(case, len(case["nodes"]))
    assert 1 - EXACT <= alone / critical <= UNLIMITED_BAR

    ran, shared = run(case, WORKERS)
    assert ran.source.most_running <= WORKERS
    assert shared / metrics["lower_bound_w8"] >= 1 - EXACT
    # Graham's bound for a schedule that leaves no place free while work waits; at most 2 - 1/8 times the lower bound.
    assert shared <= (critical * (1 - 1 / WORKERS) + serial / WORKERS) * (1 + EXACT)


@pytest.mark.parametrize("case", SAMPLE)
def test_a_graph_of_the_sample_takes_its_critical_path_and_with_eight_places_grahams_bound(
    case: JsonObject,
) -> None:
    prove(case)


@pytest.mark.prove
@pytest.mark.parametrize("case", ALL)
def test_every_graph_takes_its_critical_path_and_with_eight_places_grahams_bound(case: JsonObject) -> None:
    prove(case)


@pytest.mark.parametrize("case", [each for each in ALL if each.id == "wf-atacseq-dirt02-001"] or ALL[:1])
def test_the_longest_way_first_shortens_a_plan_that_waits_for_places(case: JsonObject) -> None:
    _, shared = run(case, WORKERS)
    assert shared < 0.9 * case["metrics_ms"]["event_w8"], "no better than first come, first served"


@pytest.mark.parametrize("case", [each for each in ALL if each.id == "wf-mag-dirt02-001"] or ALL[:1])
def test_rough_estimates_shorten_a_plan_whose_steps_are_of_very_different_lengths(case: JsonObject) -> None:
    _, without = run(case, WORKERS)
    _, shared = run(case, WORKERS, guessed(case, 0.5, 1.0))
    assert shared < 0.9 * without, "no better than counting steps"


@cache
def mean_over_the_measured(*how: float) -> float:
    return statistics.mean(
        run(case, WORKERS, guessed(case, *how) if how else None)[1] / case["metrics_ms"]["lower_bound_w8"]
        for case in read()["measured"]
    )


@pytest.mark.prove
@pytest.mark.skipif(not FILE.is_file(), reason="the shared cases are not beside the repository")
def test_with_eight_places_measured_workflows_take_what_steps_to_the_end_can_give() -> None:
    assert mean_over_the_measured() <= BY_STEPS


@pytest.mark.prove
@pytest.mark.skipif(not FILE.is_file(), reason="the shared cases are not beside the repository")
@pytest.mark.parametrize(("sigma", "share", "bar"), GUESSES.values(), ids=GUESSES)
def test_with_eight_places_measured_workflows_keep_to_the_bar_if_the_plan_says_how_long_steps_take(
    sigma: float, share: float, bar: float
) -> None:
    assert mean_over_the_measured(sigma, share) <= bar


@pytest.mark.prove
@pytest.mark.skipif(not FILE.is_file(), reason="the shared cases are not beside the repository")
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="1.126: without estimates no order that was tried comes below 1.12",
)
def test_with_eight_places_measured_workflows_keep_to_the_bar_without_estimates() -> None:
    assert mean_over_the_measured() <= WORKERS_BAR


@pytest.mark.skipif(not FILE.is_file(), reason="the shared cases are not beside the repository")
def test_the_graphs_are_whole() -> None:
    assert {name: len(found) for name, found in read().items()} == GRAPHS
