"""Graphs with step durations, and how short a schedule of each can be."""

from __future__ import annotations

import heapq
import json
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from replan.core.plan.graph import Graph
from replan.core.types import JsonObject

FILE = Path(__file__).parents[2].parent / "shared" / "cases" / "dags.jsonl"


@dataclass(frozen=True)
class Dag:
    """A graph of steps and how long each takes, in seconds."""

    name: str
    app: str
    measured: bool
    """Taken from a workflow that has run; else a person's or a model's guess."""
    secs: Mapping[str, float]
    graph: Graph

    @classmethod
    def of(cls, case: JsonObject) -> Dag:
        secs = {node["id"]: node["duration_ms"] / 1000 for node in case["nodes"]}
        needs: dict[str, list[str]] = {name: [] for name in secs}
        for before, after in case["edges"]:
            needs[after].append(before)
        measured = case["kind"].startswith("measured")
        return cls(case["id"], case["app"], measured, secs, Graph.from_needs(needs))

    def scaled(self, critical_path: float) -> Dag:
        """The same graph, so much shorter or longer."""
        factor = critical_path / self.critical_path
        secs = {name: own * factor for name, own in self.secs.items()}
        return Dag(self.name, self.app, self.measured, secs, self.graph)

    def plan(self, tool: str, estimated: Mapping[str, float] | None = None) -> JsonObject:
        """A plan in which each step calls `tool(step, secs)`, with `estimated_secs` where there are some."""
        steps: list[dict[str, Any]] = [
            {
                "step_id": name,
                "tool": tool,
                "parameters": {"step": name, "secs": self.secs[name]},
                "dependencies": list(needs),
            }
            for name, needs in self.graph.needs.items()
        ]
        for step in steps:
            if estimated and step["step_id"] in estimated:
                step["estimated_secs"] = estimated[step["step_id"]]
        return {"steps": steps}

    def guessed(self, sigma: float, share: float, seed: int) -> dict[str, float]:
        """Estimates for so many of the steps, each wrong by a factor that is lognormal around 1."""
        draw = random.Random(f"{seed} {self.name}")
        some = draw.sample(list(self.secs), round(share * len(self.secs)))
        return {step: self.secs[step] * draw.lognormvariate(0, sigma) for step in some}

    @cached_property
    def to_end(self) -> dict[str, float]:
        """The longest way from each step's start to the end."""
        return self.graph.distance_to_end(self.secs)

    @cached_property
    def critical_path(self) -> float:
        return max(self.to_end.values())

    @cached_property
    def layered(self) -> float:
        """The makespan if each layer waited for the whole one before, with a place for each step."""
        return sum(max(self.secs[step] for step in layer) for layer in self.graph.layers())

    def lower_bound(self, workers: int) -> float:
        """No schedule is shorter than the critical path, nor than the work shared by all."""
        return max(self.critical_path, sum(self.secs.values()) / workers)

    def floor(self, workers: int) -> float:
        """A closer lower bound: the work that lies between any two points of the graph has to be done between them.

        The steps that cannot start before `head` and have `tail` after them take at least their work shared by all.
        """
        head: dict[str, float] = {}
        for step in self.graph.topological():
            head[step] = max((head[one] + self.secs[one] for one in self.graph.needs[step]), default=0.0)
        tail = {step: self.to_end[step] - self.secs[step] for step in self.secs}
        by_tail = sorted(self.secs, key=lambda step: -tail[step])
        best = self.critical_path
        for start in set(head.values()):
            work = 0.0
            for step in by_tail:
                if head[step] >= start:
                    work += self.secs[step]
                    best = max(best, start + work / workers + tail[step])
        return best

    def listed(self, workers: int, estimated: Mapping[str, float] | None = None) -> float:
        """The makespan of a list schedule: the longest way to the end first, by these estimates or all durations."""
        to_end = self.to_end if estimated is None else self.graph.distance_to_end(estimated)
        missing = {step: len(needs) for step, needs in self.graph.needs.items()}
        order = count()
        ready = [(-to_end[step], next(order), step) for step in self.graph.order if not missing[step]]
        heapq.heapify(ready)
        running: list[tuple[float, str]] = []
        now = 0.0
        while ready or running:
            while ready and len(running) < workers:
                step = heapq.heappop(ready)[2]
                heapq.heappush(running, (now + self.secs[step], step))
            now = running[0][0]
            while running and running[0][0] == now:
                for dependent in self.graph.needed_by[heapq.heappop(running)[1]]:
                    missing[dependent] -= 1
                    if not missing[dependent]:
                        heapq.heappush(ready, (-to_end[dependent], next(order), dependent))
        return now

    def listed_by_guess(self, workers: int, sigma: float, share: float, seed: int) -> float:
        """The same by such guesses, the median where there is none, as Replan takes it."""
        guesses = self.guessed(sigma, share, seed)
        usual = statistics.median(guesses.values())
        return self.listed(workers, {step: guesses.get(step, usual) for step in self.secs})


def read(file: Path = FILE) -> list[Dag]:
    """Every graph of the shared cases."""
    if not file.is_file():
        folder = file.parent
        raise SystemExit(
            f"the shared cases are not beside the repository: no {file.name} in {folder.parent.name}/{folder.name}"
        )
    return [Dag.of(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
