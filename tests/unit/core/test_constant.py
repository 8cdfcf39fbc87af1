from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.calls.site import ONLY
from replan.core.ids import call_content, call_key
from replan.core.limits.policy import PlanLimits, Policy
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.state.fold import apply
from replan.core.state.step_recovery import Healing
from replan.core.state.task import State
from replan.core.types import Action, Plan, Step, ToolSpec
from replan.run.calls.build import Call, constant, prepare
from replan.run.session.outputs import Loaded

TEXT = {"type": "string"}


def tool(name: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"to": TEXT, "memo": TEXT}, "required": ["to"]}
    return ToolSpec(**{"id": name, "parameters": schema, **more})


PAY = tool("pay")
LOGIN = tool("login", secrets=("memo",))
GIVE = tool(
    "give", parameters={"type": "object", "properties": {"to": TEXT, "memo": {**TEXT, "default": "y"}}}
)
TOOLS = {one.id: one for one in (PAY, LOGIN, GIVE)}


def checked(*steps: Step, **metadata: Any) -> Checked:
    box = Toolbox(TOOLS.get, lambda name: list(TOOLS))
    return check_plan(Plan(plan_id="p", steps=steps), box, metadata=metadata, limits=PlanLimits())


def step(step_id: str = "a", name: str = "pay", **given: Any) -> Step:
    return Step(**{"step_id": step_id, "tool": name, "parameters": {"to": "x"}, **given})


def test_a_call_that_nothing_can_change_is_found_with_what_it_asks_for() -> None:
    found = checked(step(), step("b", parameters={"to": "y", "memo": "z"}, dependencies=("a",)))
    assert list(found.constants) == ["a", "b"]
    for one in found.plan.steps:
        constant = found.constants[one.step_id]
        assert constant.parameters is one.parameters
        assert constant.content == call_content("pay", one.parameters, PAY.parameters)
        assert constant.short
    assert not checked(step(parameters={"to": "x" * 1001})).constants["a"].short


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"parameters": {"to": "${metadata.who}"}}, id="a reference"),
        pytest.param({"parameters": {"to": "$${x}"}}, id="an escape"),
        pytest.param({"parameters": {}}, id="filled in from the metadata"),
        pytest.param({"name": "login"}, id="a tool that takes secrets"),
        pytest.param({"for_each": "[1]"}, id="items"),
        pytest.param({"parameters": {"to": 1}}, id="not what the tool takes"),
        pytest.param({"name": "nobody"}, id="no such tool"),
        pytest.param(
            {"name": "", "parameters": {}, "actions": (Action(action_id="c", tool="pay", parameters={"to": "x"}),)},
            id="actions",
        ),
    ],
)  # fmt: skip
def test_what_may_still_come_to_something_else_is_not_constant(given: Any) -> None:
    assert not checked(step(**given), to="me", who="you").constants


def test_with_two_steps_of_one_id_each_is_looked_at_by_its_own_parameters() -> None:
    found = checked(step(), step(parameters={"to": "y"}), step("b", parameters={"to": "y"}))
    assert [text for text in found.violations if "used twice" in text]
    assert [text for text in found.violations if "make the same call" in text]


def planned(*steps: Step) -> tuple[State, Checked]:
    state, found = State(), checked(*steps)
    apply(state, e.PlanGenerated(plan=found.plan), 0.0)
    state.checked(found.graph, found.constants)
    return state, found


def test_a_constant_call_is_told_once() -> None:
    state, found = planned(step())
    assert state.constant_call(state.steps["a"]) == found.constants["a"]
    assert state.constant_call(state.steps["a"]) is None


def test_a_step_in_recovery_or_written_anew_has_no_constant_call() -> None:
    state, _ = planned(step(), step("b", parameters={"to": "y"}))
    state.steps["a"].healing = Healing()
    assert state.constant_call(state.steps["a"]) is None
    new = step("b", parameters={"to": "z"})
    apply(state, e.StepRepaired(step=new, plan_version=2), 0.0)
    assert state.constant_call(state.steps["b"]) is None


def test_another_plan_has_constant_calls_of_its_own() -> None:
    state, _ = planned(step())
    apply(state, e.PlanGenerated(plan=Plan(plan_id="q", steps=(step(parameters={"to": "z"}),))), 0.0)
    assert state.constant_call(state.steps["a"]) is None


def test_the_graph_of_the_check_is_the_graph_of_the_plan() -> None:
    state, found = planned(step(), step("b", parameters={"to": "y"}, dependencies=("a",)))
    assert state.graph() is found.graph
    assert State(plan=found.plan).graph().needs == state.graph().needs == {"a": (), "b": ("a",)}


class Here:
    """Tools that are found by their id."""

    def __init__(self, *tools: ToolSpec) -> None:
        self._tools = {one.id: one for one in tools}

    def resolve(self, name: str) -> ToolSpec | None:
        return self._tools.get(name)


def prepared(state: State, step_id: str, tools: Any) -> Call:
    return prepare(
        state.steps[step_id],
        ONLY,
        state,
        tools,
        Loaded(),
        one_of_several=lambda *_: False,
        has_rest=lambda: True,
    )


TO = st.sampled_from(["x", "y", "z"])


TOOL = st.sampled_from(["pay", "give"])
MEMO = st.sampled_from(["${metadata.who}", "x", "y"])


@given(
    st.lists(st.tuples(TOOL, TO, MEMO | st.none(), st.booleans()), max_size=6), st.sampled_from([b"", b"key"])
)
def test_a_constant_call_is_the_call_that_preparing_gives(calls: Any, seal_key: bytes) -> None:
    steps = [
        step(
            f"s{n}", name, parameters={"to": to} if memo is None else {"to": to, "memo": memo}, repeat=repeat
        )
        for n, (name, to, memo, repeat) in enumerate(calls)
    ]
    found = checked(*steps, who="x")
    states, tools = [], Here(PAY, GIVE)
    for _ in range(2):
        state = State(task_id="task_1", submitted=e.TaskSubmitted(description="d", metadata={"who": "x"}))
        apply(state, e.PlanGenerated(plan=found.plan), 0.0)
        state.seal_key = seal_key
        states.append(state)
    states[0].checked(found.graph, found.constants)
    for name in states[0].steps:
        short = constant(states[0].steps[name], states[0], tools)
        first = short or prepared(states[0], name, tools)
        second = prepared(states[1], name, tools)
        assert (first.key, first.parameters, first.tool) == (second.key, second.parameters, second.tool)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda state: Here(PAY.model_copy(update={"description": "new"})), id="listed anew"),
        pytest.param(lambda state: Here(), id="gone"),
        pytest.param(lambda state: state.mending() and Here(PAY), id="something is in recovery"),
        pytest.param(lambda state: began(state) and Here(PAY), id="begun before"),
        pytest.param(lambda state: asks(state) and Here(PAY), id="a person has to agree"),
    ],
)
def test_a_call_about_which_something_is_new_is_prepared(changed: Any) -> None:
    state, _ = planned(step())
    assert constant(state.steps["a"], state, changed(state)) is None


def began(state: State) -> bool:
    key = call_key(state.base(PAY, {"to": "x"}), 1)
    started = e.CallStarted(call_key=key, step_id="b", tool_id="pay", effect="once", parameters={"to": "x"})
    apply(state, started, 0.0)
    return True


def asks(state: State) -> bool:
    state.submitted = e.TaskSubmitted(
        description="d", policy=Policy(approval="destructive", interactive=True)
    )
    return True
