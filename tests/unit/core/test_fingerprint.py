from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.fingerprint import labels_of, prints_of
from replan.core.types import Action, Plan, Step


def step(step_id: str, tool: str = "t", *needs: str, **parameters: Any) -> Step:
    return Step(step_id=step_id, tool=tool, parameters=parameters, dependencies=needs)


def plan(*steps: Step) -> Plan:
    return Plan(plan_id="p", steps=steps)


BASE = plan(step("a", "find", q="x"), step("b", "send", "a", text="got ${a.output.id}"))

SAME = [
    pytest.param(plan(step("s1", "find", q="x"), step("s2", "send", "s1", text="got ${s1.output.id}")), id="other ids"),
    pytest.param(
        Plan(plan_id="q", version=9, reasoning="new", steps=tuple(s.model_copy(update={"name": "n"}) for s in BASE.steps)),
        id="other words",
    ),
    pytest.param(plan(BASE.steps[0], step("b", "send", text="got ${a.output.id}")), id="an implied edge not declared"),
    pytest.param(plan(BASE.steps[0], step("b", "send", "a", text="got {{ a.outputs.id }}")), id="a reference written otherwise"),
    pytest.param(plan(BASE.steps[1], BASE.steps[0]), id="another order on paper"),
]  # fmt: skip
OTHER = [
    pytest.param(plan(step("a", "look", q="x"), BASE.steps[1]), id="another tool"),
    pytest.param(plan(step("a", "find", q="y"), BASE.steps[1]), id="another parameter"),
    pytest.param(
        plan(BASE.steps[0], step("b", "send", "a", text="got ${a.output.name}")), id="another field"
    ),
    pytest.param(plan(*BASE.steps, step("c", "find", q="z")), id="one step more"),
    pytest.param(plan(BASE.steps[0]), id="one step less"),
    pytest.param(
        plan(BASE.steps[0], BASE.steps[1].model_copy(update={"when": "a.output.id"})), id="a condition"
    ),
]


@pytest.mark.parametrize("other", SAME)
def test_plans_that_mean_the_same_have_one_print(other: Plan) -> None:
    assert prints_of(other) == prints_of(BASE)


@pytest.mark.parametrize("other", OTHER)
def test_what_matters_makes_another_print(other: Plan) -> None:
    assert not set(prints_of(other)) & set(prints_of(BASE))


def test_an_edge_that_only_orders_is_part_of_it() -> None:
    loose = plan(step("a", "x"), step("b", "y"))
    tied = plan(step("a", "x"), step("b", "y", "a"))
    assert prints_of(loose) != prints_of(tied)


def test_what_is_left_of_a_plan_is_the_same_after_a_part_was_done_and_left_out() -> None:
    labels = labels_of(BASE, {})
    rest = plan(step("n", "send", text="got ${a.output.id}"))
    assert prints_of(rest, (), labels)[1] == prints_of(BASE, {"a"})[1]


def test_actions_and_items_are_part_of_it() -> None:
    def of(*calls: tuple[str, str]) -> Plan:
        actions = tuple(Action(action_id=name, tool=tool) for name, tool in calls)
        return plan(Step(step_id="s", actions=actions))

    assert prints_of(of(("x", "t"), ("y", "u"))) == prints_of(of(("p", "u"), ("q", "t")))
    assert prints_of(of(("x", "t"))) != prints_of(of(("x", "u")))


def test_the_order_inside_a_step_is_part_of_it_and_the_names_of_its_actions_are_not() -> None:
    def of(first: str, second: str, *needs: str, text: str = "x") -> Plan:
        one = Action(action_id=first, tool="open")
        other = Action(action_id=second, tool="mail", parameters={"text": text}, dependencies=needs)
        return plan(Step(step_id="s", actions=(other, one)))

    assert prints_of(of("a", "b", "a")) != prints_of(of("a", "b"))
    assert prints_of(of("a", "b", "a")) == prints_of(of("p", "q", "p"))
    taken = prints_of(of("a", "b", text="${a.output.id}"))
    assert taken == prints_of(of("p", "q", text="${s.actions.p.output.id}"))
    assert taken == prints_of(of("p", "q", "p", text="${p.output.id}"))
    assert taken != prints_of(of("a", "b", text="${a.output.name}"))


@given(
    st.permutations([0, 1, 2, 3, 4]),
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=5, max_size=5, unique=True),
)
def test_neither_names_nor_order_on_paper_matter(order: list[int], names: list[str]) -> None:
    def named(ids: list[str]) -> list[Step]:
        return [
            step(
                name,
                f"tool{at}",
                *([ids[at - 1]] if at else []),
                **({"v": f"${{{ids[at - 1]}.output}}"} if at > 1 else {}),
            )
            for at, name in enumerate(ids)
        ]

    first = named(["s0", "s1", "s2", "s3", "s4"])
    other = named([f"n_{name}" for name in names])
    assert prints_of(plan(*first)) == prints_of(plan(*(other[at] for at in order)))
