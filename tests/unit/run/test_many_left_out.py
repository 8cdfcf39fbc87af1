"""A later plan of many steps, after plans that have left out many, takes time that grows with them."""

from __future__ import annotations

import pytest

from counting import calls_in
from cpu_time import cpu
from replan.core.recovery.strategies import with_remediation, with_suffix
from replan.core.state.progress import StepState
from replan.core.state.task import State
from replan.core.types import Action, Plan, Step
from replan.run.calls.scope import steps_referred


def test_steps_that_stay_are_found_by_their_names_however_many_there_are() -> None:
    names = [f"s{n}" for n in range(20_000)]
    steps = tuple(
        Step(step_id=name, tool="t", dependencies=(names[n - 1],) if n else ())
        for n, name in enumerate(names)
    )
    plan = Plan(plan_id="p", version=1, steps=steps)
    with cpu(4):
        kept = with_suffix(plan, names[:-1], [Step(step_id="new", tool="t")])
        helped = with_remediation(
            plan, names[10_000:], [Step(step_id=f"new{n}", tool="t") for n in range(200)]
        )

    assert [step.step_id for step in kept.steps[-2:]] == [names[-2], "new"]
    ids = [step.step_id for step in helped.steps]
    assert ids[9_999:10_001] + ids[10_199:10_201] == ["s9999", "new0", "new199", "s10000"]
    assert len(ids) == len(set(ids)) == 20_200


@pytest.mark.parametrize("named", [["e3"], ["a3"], ["e3", "a3"], ["e3", "a4", "none"]])
def test_what_a_step_refers_to_is_found_by_its_name_among_all_that_plans_have_left_out(
    named: list[str],
) -> None:
    def state(many: int) -> State:
        actions = [
            (Action(action_id=f"a{n}", tool="t"), Action(action_id=f"b{n}", tool="t")) for n in range(many)
        ]
        earlier = {f"e{n}": StepState(Step(step_id=f"e{n}", actions=actions[n])) for n in range(many)}
        now = {"d": StepState(Step(step_id="d", tool="t"))}
        return State(earlier=earlier, steps=now)

    parameters = {str(n): f"${{{name}.output}}" for n, name in enumerate(named)}
    step = StepState(Step(step_id="s", tool="t", dependencies=("d",), parameters=parameters))
    few, many = state(10), state(5_000)
    wanted = {f"e{name[1:]}" for name in named if name != "none"}

    for one in (few, many):
        found = [each.step.step_id for each in steps_referred(step, one)]
        assert (found[0], set(found[1:]), len(found)) == ("d", wanted, 1 + len(wanted))
    assert calls_in(lambda: steps_referred(step, many)) == calls_in(lambda: steps_referred(step, few))
