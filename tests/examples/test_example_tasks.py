"""The twenty tasks of the measure: they are sound, recorded plans of some are right, and what `right` means holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bench.planning import gold, plans
from bench.planning.local import Measured
from bench.planning.match import is_right
from examples.record import RECORDED_TASKS, RECORDINGS, TASKS

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.plan.read import read_plan
from replan.core.types import JsonObject, Plan, ToolSpec
from replan.llm.recorder import ReplayModel

pytestmark = pytest.mark.anyio

CASES = plans.read_lines(TASKS)
FOLDER = Path(plans.__file__).parent
DEVELOPMENT = plans.read_lines(FOLDER / "dev30.jsonl")
BY_ID = {case["id"]: case for case in CASES}


def read(steps: list[Any]) -> Plan:
    return read_plan({"steps": steps}, plan_id="plan", task="?")


def as_plan(expected: list[JsonObject]) -> Plan:
    """A plan that is as expected: the first of several values, all the texts of a text."""
    steps = [
        {
            "step_id": step["id"],
            "tool": step["tool"],
            "parameters": {name: given(value) for name, value in step["parameters"].items()},
            "dependencies": step.get("after", []),
            **({"for_each": step["for_each"]} if "for_each" in step else {}),
        }
        for step in expected
    ]
    return read(steps)


def given(value: Any) -> Any:
    if isinstance(value, dict) and "any" in value:
        return value["any"][0]
    if isinstance(value, dict) and "contains" in value:
        return "It is " + " and ".join(value["contains"])
    return value


def tools_of(case: JsonObject) -> list[ToolSpec]:
    return [ToolSpec.model_validate(tool) for tool in case["tools"]]


def checked(plan: Plan, tools: list[ToolSpec]) -> Checked:
    by_id = {tool.id: tool for tool in tools}
    return check_plan(plan, Toolbox(by_id.get, lambda name: list(by_id)), metadata={}, limits=PlanLimits())


# ── the tasks ─────────────────────────────────────────────────────────────────


def test_there_are_twenty_tasks_with_three_to_eight_tools_and_none_is_of_the_development_sets() -> None:
    assert len(BY_ID) == len(CASES) == 20
    assert all(3 <= len(case["tools"]) <= 8 for case in CASES)
    tuned_on = [
        case["task"]
        for name in ("tasks.jsonl", "dev.jsonl", "dev30.jsonl")
        for case in plans.read_lines(FOLDER / name)
    ]
    assert not {case["task"] for case in CASES} & set(tuned_on)


def test_there_are_thirty_tasks_to_develop_with() -> None:
    assert len({case["id"] for case in DEVELOPMENT}) == len(DEVELOPMENT) == 30
    assert all(3 <= len(case["tools"]) <= 6 for case in DEVELOPMENT)


@pytest.mark.parametrize("case", [*CASES, *DEVELOPMENT], ids=lambda case: case["id"])
def test_every_expected_plan_passes_the_checks_and_is_right_by_its_own_measure(case: JsonObject) -> None:
    for tool in case["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool["parameters"])
        jsonschema.Draft202012Validator.check_schema(tool["output_schema"])
    for expected in case["expected"]:
        found = checked(as_plan(expected), tools_of(case))
        assert found.violations == ()
        assert plans.fits(found.plan, case)


# ── the built-in model's plans ────────────────────────────────────────────────


@pytest.mark.parametrize("name", RECORDED_TASKS)
async def test_recorded_plans_of_the_built_in_model_are_valid_and_right(name: str) -> None:
    case = BY_ID[name]
    model = ReplayModel(RECORDINGS / "tasks.jsonl")
    plan, refused = await plans.plan_one(Measured(model), case["task"], tools_of(case), corrections=1)
    assert refused == []
    assert plans.fits(plan, case), plan


@pytest.mark.live
@pytest.mark.prove  # a minute of two cores; `tests/contract/test_model.py` asks the same model for less
async def test_the_built_in_model_makes_valid_plans_now() -> None:
    from replan.llm.local.model import LocalModel
    from replan.llm.local.weights import find

    if find() is None:
        pytest.skip("the weights of the built-in model are not here: `replan model pull` gets them")
    talk = Measured(LocalModel())
    try:
        for name in RECORDED_TASKS[:3]:
            case = BY_ID[name]
            plan, refused = await plans.plan_one(talk, case["task"], tools_of(case), corrections=1)
            assert plan is not None, refused
            assert plan.steps
    finally:
        await talk.aclose()


# ── what counts as right ──────────────────────────────────────────────────────

EXPECTED: list[JsonObject] = [
    {"id": "a", "tool": "list", "parameters": {"n": 5, "name": "é"}},
    {"id": "b", "tool": "get", "for_each": "${a.output}", "parameters": {"id": "${item.id}"}},
    {"id": "c", "tool": "tell", "parameters": {"text": {"contains": ["${b.output}"]}}, "after": ["a"]},
]


def good() -> list[Any]:
    return [
        {"step_id": "s3", "tool": "tell", "parameters": {"text": "Found: ${s2}."}, "dependencies": ["s1"]},
        {"step_id": "s1", "tool": "list", "parameters": {"n": 5.0, "name": " é\n"}},
        {"step_id": "s2", "tool": "get", "for_each": "{{ s1.outputs[*] }}", "parameters": {"id": "${item.id}"}},
    ]  # fmt: skip


def changed(at: int, **what: Any) -> list[Any]:
    steps = good()
    steps[at] |= what
    return steps


def test_ids_order_and_spelling_do_not_matter() -> None:
    assert is_right(read(good()), EXPECTED)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(good()[:2], id="a step is missing"),
        pytest.param([*good(), {"step_id": "s4", "tool": "list", "parameters": {}}], id="one too many"),
        pytest.param(changed(1, tool="get"), id="another tool"),
        pytest.param(changed(1, parameters={"n": 6, "name": "é"}), id="another number"),
        pytest.param(changed(1, parameters={"n": "5", "name": "é"}), id="a text for a number"),
        pytest.param(changed(1, parameters={"n": 5, "name": "e"}), id="another text"),
        pytest.param(changed(1, parameters={"n": 5}), id="a parameter left out"),
        pytest.param(changed(1, parameters={"n": 5, "name": "é", "x": None}), id="a parameter too many"),
        pytest.param(changed(2, parameters={"id": "${item.name}"}), id="another field"),
        pytest.param(changed(2, for_each="${s1.output.items}"), id="another list"),
        pytest.param(changed(2, for_each=None), id="not for each"),
        pytest.param(changed(2, when="s1.output"), id="only under a condition"),
        pytest.param(changed(0, parameters={"text": "${s1.output}"}), id="another step's output"),
        pytest.param(changed(0, dependencies=[]), id="the order is not said"),
    ],
)
def test_all_else_does(steps: list[Any]) -> None:
    assert not is_right(read(steps), EXPECTED)


def test_true_is_not_one() -> None:
    expected: list[JsonObject] = [{"id": "a", "tool": "t", "parameters": {"n": 1}}]
    assert is_right(read([{"step_id": "s", "tool": "t", "parameters": {"n": 1.0}}]), expected)
    assert not is_right(read([{"step_id": "s", "tool": "t", "parameters": {"n": True}}]), expected)


# ── the same for the public collections ───────────────────────────────────────


def recorded() -> JsonObject:
    number = {"type": "object", "properties": {"n": {"type": "integer"}, "unit": {"default": "m"}}}
    return {
        "tools": [{"id": "get", "parameters": {}}, {"id": "put", "parameters": number}],
        "plan": {
            "steps": [
                {"step_id": "step_1", "tool": "get"},
                {"step_id": "step_2", "tool": "put"},
            ]
        },
        "tool_results": {"step_1": {"rows": [{"n": 7}]}, "step_2": {}},
        "expected": {"resolved_parameters": {"step_1": {}, "step_2": {"n": 7}}},
    }


@pytest.mark.parametrize(
    ("parameters", "right"),
    [
        pytest.param({"n": "${a.output.rows[0].n}"}, True, id="a reference to the recorded value"),
        pytest.param({"n": 7}, True, id="the value itself"),
        pytest.param({"n": 7, "unit": "m"}, True, id="the default, said"),
        pytest.param({"n": 7, "unit": "km"}, False, id="not the default"),
        pytest.param({"n": "${a.output.rows[1].n}"}, False, id="a reference to nothing"),
        pytest.param({"n": "${a.output.rows}"}, False, id="a reference to something else"),
    ],
)
def test_a_plan_is_right_if_it_makes_the_recorded_calls(parameters: JsonObject, right: bool) -> None:
    steps = [
        {"step_id": "b", "tool": "put", "parameters": parameters},
        {"step_id": "a", "tool": "get", "parameters": {}},
    ]
    assert gold.same_tools(read(steps), recorded())
    assert gold.makes_the_calls(read(steps), recorded()) is right


@pytest.mark.skipif(not gold.FOLDER.is_dir(), reason="the shared cases are not beside the repository")
@pytest.mark.parametrize("source", gold.SOURCES)
def test_the_collections_own_plans_are_right_and_the_sample_is_the_same_every_time(source: str) -> None:
    samples = [dict(gold.sample(gold.FOLDER, 30, seed=7))[source] for _ in range(2)]
    assert samples[0] == samples[1]
    assert [len(case["tools"]) <= gold.MAX_TOOLS for case in samples[0]] == [True] * 5
    for case in samples[0]:
        own = json.loads(json.dumps(case["plan"]["steps"]))
        assert gold.makes_the_calls(read(own), case)
        assert not gold.makes_the_calls(read(own[1:]), case)
