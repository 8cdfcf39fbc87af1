"""Numbers that give steps an order: steps run by their dependencies, so an effect that would not wait is asked about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_check_plan import FIND, MAIL

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.plan.read import read_plan

TOOLS = {spec.id: spec for spec in (FIND, MAIL)}


def checked(*steps: dict[str, Any]) -> Checked:
    plan = read_plan({"steps": list(steps)}, plan_id="p")
    return check_plan(plan, Toolbox(TOOLS.get, lambda _: []), metadata={}, limits=PlanLimits())


def look(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"step_id": name, "tool": "find", "parameters": {"query": "q"}, **more}


def mail(name: str = "mail", **more: Any) -> dict[str, Any]:
    return {"step_id": name, "tool": "mail", "parameters": {"to": name, "body": "b"}, **more}


@pytest.mark.parametrize(
    ("of_mail", "of_look"),
    [
        ({"order": 2}, {"order": 1}),
        ({"Order": "2"}, {"order": "1"}),
        ({"phase": "2 after look"}, {"phase": "1"}),
        ({"phase": "phase 2: tell"}, {"phase": "phase 1: find"}),
        ({"order": 1.5}, {"phase": 1}),
        ({"order": 3, "needs": ["first"]}, {"order": 2}),
    ],
)
def test_an_effect_that_does_not_wait_for_what_its_number_puts_before_it_is_a_violation(
    of_mail: dict[str, Any], of_look: dict[str, Any]
) -> None:
    for steps in ([mail(**of_mail), look(**of_look)], [look(**of_look), mail(**of_mail)]):
        (told,) = checked(*steps, look("first")).violations
        assert "step 'mail' is number" in told
        assert "does not wait for step 'look'" in told
        assert "`dependencies`" in told


@pytest.mark.parametrize(
    "steps",
    [
        [look(order=1), mail(order=2, dependencies=["look"])],
        [look(order=1), look("b", order=2, dependencies=["look"]), mail(order=3, dependencies=["b"])],
        [look(order=1), {**mail(order=2), "parameters": {"to": "${look.output.best.id}", "body": "b"}}],
        [look(order=1), mail(order=2, when="look.output.total > `1`")],
        [look(order=2), mail(order=1)],
        [look(order=1), mail("a", order=1), mail("b", order=1)],
        [look(order=1), look("b", order=2)],
        [look(step_number=1), mail(step_number=2)],
        [look(phase="setup"), mail(phase="after")],
        [look(), mail(order=2)],
    ],
    ids=["waits", "waits for one that waits", "refers", "by its condition", "is first", "side by side",
         "only reads", "is only counted", "has no number", "alone has one"],
)  # fmt: skip
def test_numbers_that_change_nothing_are_for_readers(steps: list[dict[str, Any]]) -> None:
    found = checked(*steps)
    assert found.violations == ()
    assert all(step.order is None for step in found.plan.steps), "a plan that is kept knows nothing of them"


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 2**6)), min_size=1, max_size=6))
def test_a_plan_passes_only_where_each_effect_waits_for_all_that_has_a_lower_number(
    drawn: list[tuple[int, bool, int]],
) -> None:
    steps = []
    for at, (order, acts, needs) in enumerate(drawn):
        named = [f"s{n}" for n in range(at) if needs >> n & 1]
        steps.append((mail if acts else look)(f"s{at}", order=order, dependencies=named))
    found = checked(*steps)
    upstream: dict[str, set[str]] = {}
    for one in steps:
        direct = one["dependencies"]
        upstream[one["step_id"]] = set(direct).union(*(upstream[name] for name in direct))
    wrong = any(
        one["tool"] == "mail"
        and other["order"] < one["order"]
        and other["step_id"] not in upstream[one["step_id"]]
        for one in steps
        for other in steps
    )
    assert bool(found.violations) == wrong
