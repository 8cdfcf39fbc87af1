from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replan.core.events import PlanGenerated, dump, load
from replan.core.plan.read import MAX_DEPTH, PlanMisread, read_plan
from replan.core.types import Plan
from replan.errors import PlanInvalid


def read(answer: Any) -> Plan:
    return read_plan(answer, plan_id="p", version=3, task="the task")


def first(**step: Any) -> Any:
    return read({"steps": [{"step_id": "s", "tool": "t", **step}]}).steps[0]


def test_a_whole_plan_is_read() -> None:
    plan = read(
        {
            "task_description": "d",
            "reasoning": "because",
            "estimated_duration": "12.5",
            "steps": [
                {
                    "step_id": "a",
                    "name": "n",
                    "tool": "t",
                    "parameters": {"x": [1, {"y": None}]},
                    "dependencies": ["b", "b", "c"],
                    "expected_output": "o",
                    "when": "b.output",
                    "for_each": "${b.output}",
                    "timeout_secs": 5,
                    "estimated_secs": "60",
                    "requires_approval": True,
                    "repeat": "true",
                    "allow_failed_items": "true",
                },
                {"step_id": "g", "actions": [{"action_id": "g1", "tool": "t", "parameters": '{"q": 1}'}]},
            ],
        }
    )
    assert (plan.plan_id, plan.version, plan.task_description, plan.reasoning) == ("p", 3, "d", "because")
    assert plan.estimated_duration == 12.5
    step = plan.steps[0]
    assert step.model_dump(exclude={"actions"}) == {
        "step_id": "a", "name": "n", "tool": "t", "parameters": {"x": [1, {"y": None}]}, "dependencies": ("b", "c"),
        "expected_output": "o", "when": "b.output", "for_each": "${b.output}", "timeout_secs": 5.0, "estimated_secs": 60.0,
        "requires_approval": True, "repeat": True, "repeat_reason": "", "allow_failed_items": True,
    }  # fmt: skip
    assert plan.steps[1].actions[0].parameters == {"q": 1}


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        pytest.param({"steps": []}, [], id="no steps"),
        pytest.param({"steps": "[]"}, [], id="no steps as a text"),
        pytest.param({"cannot": "no tool"}, [], id="no steps and why"),
        pytest.param({"steps": None, "ask_first": "Which Ann?"}, [], id="null and a question"),
        pytest.param({"steps": '[{"tool": "t"}]'}, ["step_1"], id="steps as a text"),
        pytest.param([{"tool": "t"}, {"id": "x", "tool": "t"}], ["step_1", "x"], id="the bare list"),
        pytest.param(
            {"plan": {"steps": [{"step_id": 7, "tool": "t"}]}}, ["7"], id="wrapped, and a number for an id"
        ),
        pytest.param({"execution_plan": {"steps": []}}, [], id="wrapped by its schema's name"),
        pytest.param({"steps": [{"stepId": "a", "toolId": "t"}]}, ["a"], id="camel case"),
        pytest.param(
            {"steps": [{"step_id": "a", "tool": "t", "refs": [], "status": "pending"}]},
            ["a"],
            id="more fields",
        ),
    ],
)
def test_the_form_is_tolerated(answer: Any, ids: list[str]) -> None:
    assert [step.step_id for step in read(answer).steps] == ids


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"parameters": '{"a": {"b": 1}}'}, "parameters", {"a": {"b": 1}}),
        ({"parameters": None}, "parameters", {}),
        ({"parameters": ""}, "parameters", {}),
        ({"arguments": {"a": 1}}, "parameters", {"a": 1}),
        ({"params": {"a": 1}, "parameters": {}}, "parameters", {"a": 1}),
        ({"dependencies": "a, b"}, "dependencies", ("a", "b")),
        ({"dependencies": None}, "dependencies", ()),
        ({"depends_on": ["a"]}, "dependencies", ("a",)),
        ({"dependsOn": ["a"]}, "dependencies", ("a",)),
        ({"timeout_secs": "2.5"}, "timeout_secs", 2.5),
        ({"timeout": 2}, "timeout_secs", 2.0),
        ({"when": False}, "when", "`false`"),
        ({"when": True}, "when", "`true`"),
        ({"when": ""}, "when", None),
        ({"for_each": ["a", {"b": 1}]}, "for_each", '["a", {"b": 1}]'),
        ({"condition": "a.output"}, "when", "a.output"),
        ({"for_each": ""}, "for_each", None),
        ({"repeat": "no"}, "repeat", False),
        ({"requires_approval": 1}, "requires_approval", True),
        ({"requires_approval": None}, "requires_approval", False),
        ({"name": "\ud83d\ude42x"}, "name", "🙂x"),
        ({"parameters": {"k\ud83d\ude42": ["🙂 日本"]}}, "parameters", {"k🙂": ["🙂 日本"]}),
    ],
)
def test_a_field_is_read_in_the_sense_that_it_has(given: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(first(**given), field) == value


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param("x", "a plan is an object with a list `steps`; this is a text", id="a text"),
        pytest.param(None, "this is null", id="null"),
        pytest.param({}, "this is an object, and has: nothing", id="nothing in it"),
        pytest.param({"stepz": []}, "this is an object, and has: stepz", id="no steps in it"),
        pytest.param({"steps": None}, "`steps` has to be a list of steps, not null; [] where no tool", id="null for steps"),
        pytest.param({"steps": None, "cannot": "none"}, "not null", id="null and a filler"),
        pytest.param({"steps": ""}, "not a text that holds no list: ''", id="an empty text"),
        pytest.param({"steps": "1. call pay"}, "a text that holds no list: '1. call pay'", id="steps in prose"),
        pytest.param({"steps": '[{"tool": "t"'}, "a text that holds no list", id="steps that are cut off"),
        pytest.param({"steps": "null"}, "a text that holds no list: 'null'", id="null in a text"),
        pytest.param({"steps": 5}, "`steps` has to be a list of steps, not a number", id="steps no list"),
        pytest.param({"steps": ["x"]}, "steps[0] has to be an object with step_id, tool and parameters", id="a step no object"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(answer: Any, says: str) -> None:
    with pytest.raises(PlanInvalid) as caught:
        read(answer)
    assert says in caught.value.violations[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"parameters": "not json"},
            "step 's': `parameters` is a text that holds no JSON object with each key once: 'not json'",
        ),
        ({"parameters": "[1]"}, "holds no JSON object"),
        ({"parameters": [1]}, "`parameters` has to be an object, not a list"),
        ({"parameters": "[" * 100_000}, "holds no JSON object"),
        ({"parameters": {"x": float("nan")}}, "the plan holds nan, which is no JSON value"),
        ({"parameters": '{"x": Infinity}'}, "step 's': `parameters` is a text that holds no JSON object"),
        (
            {"parameters": {"x": ["caf\udce9.txt"]}},
            r"the plan holds 'caf\udce9.txt' is no text that UTF-8 has",
        ),
        ({"parameters": {"caf\udce9": 1}}, r"the plan holds 'caf\udce9' is no text"),
        ({"name": "\ud800x"}, r"the plan holds '\ud800x' is no text"),
        ({"dependencies": {"a": 1}}, "`dependencies` has to be a list of step ids"),
        ({"dependencies": [{"a": 1}]}, "`dependencies` has to be a list of step ids"),
        ({"timeout_secs": 0}, "`timeout_secs` has to be a number of seconds above 0, not 0"),
        ({"timeout_secs": "soon"}, "not 'soon'"),
        ({"timeout_secs": 10**400}, "has to be a number of seconds above 0"),
        ({"timeout_secs": True}, "not True"),
        ({"for_each": {"a": 1}}, "`for_each` has to be a text, not an object"),
        ({"when": {"a": 1}}, "`when` has to be a text, not an object"),
        ({"tool": {"id": "t"}}, "`tool` has to be a text, not an object"),
        ({"actions": {"a": 1}}, "`actions` has to be a list, not an object"),
        ({"actions": "x"}, "`actions` has to be a list, not a text"),
        ({"actions": ["x"]}, "actions[0] has to be an object"),
        ({"requires_approval": "maybe"}, "`requires_approval` has to be true or false, not 'maybe'"),
        ({"dependancies": ["a"]}, "step 's' has no field 'dependancies'; did you mean 'dependencies'?"),
        ({"skip_if": "a.status == 'failed'"}, "step 's' has no field 'skip_if'; there are: "),
        ({"conditions": ["a.output"]}, "step 's' has no field 'conditions'"),
        ({"foo": 1}, "step 's' has no field 'foo'"),
        (
            {"parameters": {"a": 1}, "args": {"b": 2}},
            "has 'args' beside 'parameters', which is the same field",
        ),
        ({"actions": [{"tool": "t", "only_if": "x"}]}, "actions[0] has no field 'only_if'"),
        ({"foreach": "${a}", "for-eachs": 1}, "has no field 'for-eachs'; did you mean 'for_each'?"),
    ],
)
def test_a_fault_of_form_says_where_and_what_would_be_right(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanInvalid) as caught:
        first(**given)
    assert [says in text for text in caught.value.violations] == [True], caught.value.violations


def test_every_fault_comes_in_one_list() -> None:
    with pytest.raises(PlanInvalid) as caught:
        read({"steps": ["x", {"tool": 5, "timeout_secs": -1}, {"parameters": 1}]})
    assert len(caught.value.violations) == 4


def test_depth_is_bounded() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = {"a": value}
        return value

    assert first(parameters=nested(MAX_DEPTH - 3)).parameters
    for levels in (MAX_DEPTH, 500):
        with pytest.raises(PlanInvalid, match=f"deeper than {MAX_DEPTH} levels"):
            first(parameters=nested(levels))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, "true", "[]", "{}", '{"a": 1}', "${a}", "", "1e999"])
    | st.floats()
    | st.text(st.characters(), max_size=8)
)
FIELDS = st.sampled_from(
    ["step_id", "id", "name", "tool", "parameters", "dependencies", "actions", "action_id", "when", "for_each", "repeat",
     "timeout_secs", "requires_approval", "expected_output", "steps", "plan", "reasoning", "estimated_duration",
     "task_description", "depends_on", "stepId"]
)  # fmt: skip
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=20,
)
STEPS = st.lists(st.dictionaries(FIELDS, ANY_JSON, max_size=8), max_size=3)


@given(ANY_JSON | st.fixed_dictionaries({"steps": STEPS | ANY_JSON}) | STEPS)
@example({"steps": [{"step_id": 10**400}]})
def test_any_json_is_a_plan_or_a_refusal_and_a_plan_can_be_stored(answer: Any) -> None:
    try:
        plan = read(answer)
    except PlanInvalid as error:
        plan, faults = None, error.violations
    if plan is None:
        assert faults
        assert all(isinstance(text, str) for text in faults)
        return
    event = PlanGenerated(plan=plan)
    assert load("plan_generated", dump(event)) == event
    json.dumps(plan.model_dump(mode="json"), allow_nan=False).encode()


TEXTS = st.text(st.sampled_from("ab \n\tß\ud800\x85\u2028"), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS | st.integers(), inner, max_size=2),
    max_leaves=4,
)
STEPS = st.fixed_dictionaries(
    {},
    optional={
        "step_id": TEXTS | VALUES,
        "name": TEXTS | VALUES,
        "tool": TEXTS,
        "parameters": st.dictionaries(TEXTS | st.integers(), VALUES, max_size=3) | VALUES,
        "dependencies": st.lists(TEXTS, max_size=3) | VALUES,
        "expected_output": TEXTS,
    },
)


@given(STEPS)
@example({"step_id": "a", "tool": "t", "parameters": {"x": 1, "y": ["z", None]}, "dependencies": ["b", "b"]})
@example({"step_id": "a", "tool": "t", "parameters": {"x": math.nan}})
@example({"step_id": "a", "tool": "t", "dependencies": ["b", 1]})
@example({"step_id": " a", "tool": "t ", "dependencies": ["b "]})
@example({"step_id": "a", "tool": "t", "parameters": {"x": "\ud800"}})
def test_a_step_that_is_written_as_it_is_meant_is_read_as_any_other(raw: Any) -> None:
    def outcome(step: Any) -> Any:
        try:
            return read({"steps": [step]})
        except PlanInvalid as error:
            return error.violations

    # A note is dropped, but such a step is read piece by piece.
    assert outcome(raw) == outcome({**raw, "_note": 1})


def test_what_is_read_is_independent_of_what_was_given() -> None:
    parameters: Any = {"x": [1], "y": {"z": 2}}
    plan = read({"steps": [{"step_id": "a", "tool": "t", "parameters": parameters}]})
    parameters["x"].append(2)
    parameters["y"]["z"] = parameters["w"] = 3
    assert plan.steps[0].parameters == {"x": [1], "y": {"z": 2}}


def test_levels_are_counted_alike_however_a_step_is_written() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    for more in ({}, {"_note": 1}):
        for levels, fits in ((MAX_DEPTH - 4, True), (MAX_DEPTH - 3, False)):
            step = {"step_id": "a", "tool": "t", "parameters": {"x": nested(levels)}, **more}
            if fits:
                assert read({"steps": [step]}).steps[0].parameters == {"x": nested(levels)}
            else:
                with pytest.raises(PlanInvalid, match="nested deeper"):
                    read({"steps": [step]})


def test_what_stops_or_orders_a_step_is_read_by_its_common_names() -> None:
    raw = {
        "step_id": "b", "tool": "t", "run_if": "a.output.due", "needs_approval": True, "after": ["a"],
        "description": "pays", "_note": "x", "type": "tool", "foo": None,
    }  # fmt: skip
    (step,) = read_plan({"steps": [raw]}, plan_id="p").steps
    assert (step.when, step.requires_approval, step.dependencies) == ("a.output.due", True, ("a",))


@pytest.mark.parametrize("written", ['["a", "b"]', "[a, b]", "a, b", ["a", "b"], '["a","b"]'])
def test_dependencies_may_be_a_list_in_a_text(written: Any) -> None:
    steps = [{"step_id": name, "tool": "t"} for name in "ab"]
    plan = read_plan({"steps": [*steps, {"step_id": "c", "tool": "t", "dependencies": written}]}, plan_id="p")
    assert plan.steps[2].dependencies == ("a", "b")


def test_which_parameters_could_not_be_read_stands_at_the_call_and_in_no_message() -> None:
    wanted = {
        "steps": [
            {"step_id": "a", "tool": "t", "parameters": "no object"},
            {"step_id": "b", "tool": "t", "parameters": "{}"},
            {"step_id": "c", "tool": "t", "parameters": ["`parameters` of it"]},
            {"step_id": "d", "actions": [{"action_id": "x", "tool": "t", "parameters": 7},
                                         {"action_id": "y", "tool": "t", "parameters": {"n": 1}}]},
            {"step_id": "e", "tool": "t", "parameters": {"n": "step 'b': `parameters` is a text"}},
        ]
    }  # fmt: skip
    with pytest.raises(PlanMisread) as found:
        read_plan(wanted, plan_id="p")
    steps = {step.step_id: step for step in found.value.plan.steps}
    assert {name: step.unread for name, step in steps.items()} == {
        "a": True, "b": False, "c": True, "d": False, "e": False
    }  # fmt: skip
    assert [action.unread for action in steps["d"].actions] == [True, False]
    assert "unread" not in found.value.plan.model_dump_json()
