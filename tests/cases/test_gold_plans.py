"""Recorded plans of six public collections: each is checked, then run with tools that give the recorded results.

A fixed sample runs by default; `-m prove` runs every case.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from replan.core.events import TaskSubmitted
from replan.core.limits.policy import PlanLimits, Policy
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.plan.graph import Graph
from replan.core.plan.read import read_plan
from replan.core.state.task import State
from replan.core.types import JsonObject, ToolSpec
from replan.ports import ToolCall
from replan.run.orchestrator import drive
from replan.run.session.dependencies import Parts
from replan.testing import ManualIds, MemoryStore, VirtualClock
from replan.tools.catalog.catalog import Catalog

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[2].parent / "shared" / "cases"
COLLECTIONS = {"nestful": 181, "cfb": 220, "tau2": 99, "bfcl": 99, "agentdojo": 38, "nestools": 212}
EVERY = 5
# The recorded user reboots the device twice, and means it: other effects stand between the two.
MEANT_TWICE = {"tau2-telecom-4ec83e9c", "tau2-telecom-7078f97b", "tau2-telecom-e01048ec"}


@cache
def read_cases(collection: str) -> list[JsonObject]:
    file = FOLDER / f"{collection}_public.jsonl"
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def cases(every: int) -> list[Any]:
    found = [case for collection in COLLECTIONS for case in read_cases(collection)[::every]]
    if not found:
        reason = f"the shared cases are not beside the repository ({FOLDER.name} in {FOLDER.parent.name})"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="no-shared-cases")]
    return [pytest.param(case, id=case["id"]) for case in found]


class Recorded:
    """A source whose tools give what was recorded for the step, and keep what they were called with."""

    name = "recorded"

    def __init__(self, specs: Sequence[ToolSpec], results: JsonObject) -> None:
        self._specs = specs
        self._results = results
        self.parameters: JsonObject = {}

    async def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: ToolCall) -> Any:
        assert call.step_id not in self.parameters, "called twice"
        self.parameters[call.step_id] = call.parameters
        return self._results[call.step_id]

    async def aclose(self) -> None:
        return None


def specs_of(case: JsonObject, *, output_schemas: bool) -> list[ToolSpec]:
    effects = {"read": "reads", "write": "once"}
    return [
        ToolSpec.model_validate(
            {
                "id": tool["id"],
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["parameters"],
                "output_schema": tool.get("output_schema") if output_schemas else None,
                "effect": effects.get(tool.get("side_effect"), "once"),
            }
        )
        for tool in case["tools"]
    ]


def checked(plan: JsonObject, specs: list[ToolSpec]) -> Checked:
    by_id = {spec.id: spec for spec in specs}
    box = Toolbox(by_id.get, lambda name: list(by_id)[:3])
    return check_plan(read_plan(plan, plan_id="plan_1"), box, metadata={}, limits=PlanLimits())


async def run(case: JsonObject, specs: list[ToolSpec]) -> tuple[State, Recorded]:
    source = Recorded(specs, case["tool_results"])
    catalog = Catalog([source])
    await catalog.open()
    assert catalog.problems == []
    store = MemoryStore()
    submitted = TaskSubmitted(description=case["task"], plan=case["plan"], policy=Policy(evaluation="steps"))
    await store.create("task_1", submitted, 1.0)
    return await drive("task_1", Parts(store, catalog, {}, VirtualClock(), ManualIds())), source


async def prove(case: JsonObject) -> None:
    expected = case["expected"]
    broken = sorted({each["step"] for each in expected["schema_violations"]})
    verdict = checked(case["plan"], specs_of(case, output_schemas=True))
    named = {
        step for step in expected["resolved_parameters"] for text in verdict.violations if repr(step) in text
    }
    assert named <= set(broken), verdict.violations
    if not broken:
        assert verdict.violations == ()
        layers = Graph.of(verdict.plan).layers()
        assert [sorted(layer) for layer in layers] == [sorted(layer) for layer in expected["layers"]]

    # Where the producer's schema tells already, the plan is refused: the call's own check is proved without it.
    state, source = await run(case, specs_of(case, output_schemas=not verdict.violations))
    failed = {name: step.fault for name, step in state.steps.items() if step.status == "failed"}
    assert sorted(failed) == broken
    assert {fault.category for fault in failed.values() if fault} <= {"parameter_error"}
    after = set(Graph.of(verdict.plan).downstream(broken))
    assert {name for name, step in state.steps.items() if step.status == "skipped"} == after
    wanted = {
        name: parameters
        for name, parameters in expected["resolved_parameters"].items()
        if name not in after and name not in broken
    }
    assert source.parameters == wanted
    assert state.status == ("failed" if broken else "succeeded")


@pytest.mark.parametrize("case", cases(EVERY))
async def test_a_recorded_plan_of_the_sample_makes_the_recorded_calls(case: JsonObject) -> None:
    await prove(case)


@pytest.mark.prove
@pytest.mark.parametrize("case", cases(1))
async def test_every_recorded_plan_makes_the_recorded_calls(case: JsonObject) -> None:
    await prove(case)


@pytest.mark.parametrize("case", [each for each in cases(1) if each.id in MEANT_TWICE] or cases(1)[:1])
async def test_what_is_done_again_after_something_else_is_meant(case: JsonObject) -> None:
    specs = specs_of(case, output_schemas=True)
    assert checked(case["plan"], specs).violations == ()
    together = [{**step, "dependencies": []} for step in case["plan"]["steps"]]
    refused = checked({"steps": together}, specs).violations
    assert ["repeat: true" in text for text in refused] == [True], "side by side it is a slip"
    await prove(case)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared cases are not beside the repository")
def test_the_collections_are_whole() -> None:
    assert {name: len(read_cases(name)) for name in COLLECTIONS} == COLLECTIONS
