"""A plan with very many faults is told the first of them, and no step has more references than can be filled in."""

from __future__ import annotations

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import MOST_TOLD, Toolbox, check_plan
from replan.core.types import Plan, Step, ToolSpec

LOOK = ToolSpec(id="look", effect="reads", parameters={"type": "object", "properties": {"q": {}}})
TOOLS = Toolbox({"look": LOOK}.get, lambda _: ["look"])


def violations(*steps: Step, limits: PlanLimits | None = None) -> tuple[str, ...]:
    return check_plan(
        Plan(plan_id="p", steps=steps), TOOLS, metadata={}, limits=limits or PlanLimits()
    ).violations


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Step(step_id=f"s{n}", tool="look", parameters={"q": f"${{no{n}.output}}"}),
        lambda n: Step(step_id=f"s{n}", tool=f"toool{n}", parameters={"q": n}),
        lambda n: Step(step_id=f"s{n}", tool="look", dependencies=(f"no{n}",)),
    ],
    ids=["references", "tools", "dependencies"],
)
def test_of_very_many_faults_the_first_are_told_and_that_there_are_more(make: object) -> None:
    few = violations(*(make(n) for n in range(20)))  # type: ignore[operator]
    many = violations(*(make(n) for n in range(3_000)))  # type: ignore[operator]
    assert len(few) == 20
    assert len(many) == MOST_TOLD + 1
    assert "more of it" in many[-1]
    assert [text.split(":")[0] for text in many[:20]] == [text.split(":")[0] for text in few]


def test_a_step_has_no_more_references_than_is_allowed() -> None:
    first = Step(step_id="a", tool="look")
    second = Step(step_id="b", tool="look", parameters={"q": "${a.output} " * 30})
    assert violations(first, second) == ()
    assert violations(first, second, limits=PlanLimits(max_references=30)) == ()
    assert violations(first, second, limits=PlanLimits(max_references=29)) == (
        "step 'b' has 30 references; at most 29 are allowed",
    )
