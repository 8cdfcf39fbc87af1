"""A substitute pays once more in a fork only where the plan there states what the other task has had, with its very values, beside it."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_forks_alike import STEPS, fork_of, takes

from replan.testing import virtual_time

OTHER = {"pay": "wire", "wire": "pay"}


def listed(tool: str, *to: str, **more: Any) -> dict[str, Any]:
    parameters = {"to": "${item.to}", "cents": "${item.cents}"}
    return step("l", tool, for_each=[{"to": one, "cents": 5} for one in to], parameters=parameters, **more)


def acting(tool: str, *to: str) -> dict[str, Any]:
    return step("l", for_each=[*to], actions=[action("a", tool, to="${item}", cents=5)])


def beside(first: str, form: str, *to: str) -> list[dict[str, Any]]:
    """What the fork plans beside the substitute."""
    match form:
        case "a list":
            return [listed(first, *to)]
        case "actions of a list":
            return [acting(first, *to)]
        case "a step of that name":
            return [step("p", first, parameters={"to": one, "cents": 5}) for one in to[:1]]
        case _:
            open_ = step("open", "open", parameters={})
            parameters = {"to": "${item}", "cents": 5}
            return [open_, step("l", first, "open", for_each="${open.output}", parameters=parameters)]


async def ran_and_forked(first: str, declares: str, plans: list[dict[str, Any]], *open_: str) -> Ran:
    """Bob is paid by the first; the fork's plan has the other tool for him, and more."""
    tools: dict[str, Any] = {
        name: FakeTool(
            output=lambda one: {"id": one["to"]},
            spec={"substitutes": [OTHER[name]]} if name == declares else {},
            **takes("to", "cents"),
        )
        for name in OTHER
    }
    tools["open"] = FakeTool(output=[*open_])
    made = await bench(tools)
    bob = {"to": "bob", "cents": 5}
    ran = (await made.run(plan(step("p", first, parameters=bob)), **STEPS)).check()
    whole = plan(*plans, step("w", OTHER[first], parameters=bob))
    return await fork_of(made, ran, "plan_generated", plan=whole)


@pytest.mark.parametrize(
    "form", ["a list", "actions of a list", "a step of that name", "a list that is read"]
)
@pytest.mark.parametrize(("first", "declares"), [("pay", "pay"), ("wire", "pay")])
def test_payments_of_others_beside_a_substitute_do_not_tell_it_from_what_was_paid(
    first: str, declares: str, form: str
) -> None:
    fork = virtual_time(ran_and_forked(first, declares, beside(first, form, "cid", "dora"), "cid", "dora"))
    assert fork.statuses()["w"] == "failed"
    assert fork.source.counts[OTHER[first]] == 0, "Bob has been paid"
    assert [one.error.kind for one in fork.events("call_failed")] == ["repeated"]


@pytest.mark.parametrize("form", ["a list", "actions of a list"])
def test_a_plan_that_states_both_has_both(form: str) -> None:
    fork = virtual_time(ran_and_forked("pay", "pay", beside("pay", form, "cid", "bob")))
    assert fork.result.is_success, fork.result.reason
    assert fork.source.counts == {"pay": 2, "wire": 1}, "Bob's payment is that of the other task"
