"""A payment that was moved to another account, in vain at first: once that has gone through, the first account is paid no more unasked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_mended_before import END, PAY, tells
from test_run_very_call import REPLAN, overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time

MOVED = reflection("retry_with_params", {"to": "Ann2"})


class Bank:
    """Refuses the payments to an account as often as it is told, and takes them then."""

    def __init__(self, **refused: int) -> None:
        self.refused = refused
        self.paid: list[str] = []

    def pay(self, parameters: dict[str, Any]) -> dict[str, int]:
        to = parameters["to"]
        if self.refused.get(to, 0):
            self.refused[to] -= 1
            raise ToolCallError(f"{to} cannot be paid at the moment", kind="tool")
        self.paid.append(to)
        return {"id": len(self.paid)}

    def tell(self, parameters: dict[str, Any]) -> str:
        if parameters["to"] != "chief":
            raise ToolCallError("the box is full", kind="tool")
        return "told"


def run(bank: Bank, plans: Sequence[dict[str, Any]], reflected: Sequence[dict[str, Any]]) -> Ran:
    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=PAY),
            "tell": FakeTool(output=bank.tell, effect="once"),
        }
        answers = {
            "execution_plan": list(plans),
            "step_reflection": list(reflected),
            "overall_reflection": [*[overall(type="full_replan")] * (len(plans) - 1), END],
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run(evaluation="model")).check()

    return virtual_time(main())


def pays(number: int, shape: str, who: str, box: str = "boss") -> dict[str, Any]:
    """A plan that pays, and tells of it."""
    name = f"p{number}"
    whom: dict[str, Any] = {"to": who} if shape == "step" else {"to": "${item}"}
    more = {} if shape == "step" else {"for_each": f'["{who}"]'}
    return plan(
        step(name, "pay", parameters={**whom, "cents": 500}, **more),
        tells(f"m{number}", f"{box}{number}" if box == "boss" else box, name),
    )


@pytest.mark.parametrize("shape", ["step", "list"])
@pytest.mark.parametrize(
    ("refused", "chain", "mends"),
    [
        ({"Ann": 1, "Ann2": 1}, ["Ann", "Ann2", "Ann2", "Ann"], [REPLAN] * 5),
        ({"Ann": 2, "Ann2": 1}, ["Ann", "Ann2", "Ann", "Ann2", "Ann"], [REPLAN] * 6),
        ({"Ann": 1, "Ann2": 1}, ["Ann", "Ann2", "Ann", "Ann2"], [REPLAN] * 5),
        ({"Ann": 1, "Ann2": 1}, ["Ann", "Ann2", "Ann"], [MOVED, *[REPLAN] * 5]),
    ],
)
def test_what_stands_for_a_call_may_have_failed_itself_before(
    shape: str, refused: dict[str, int], chain: list[str], mends: list[dict[str, Any]]
) -> None:
    bank = Bank(**refused)
    last = len(chain) - 1
    plans = [pays(at, shape, who, "chief" if at == last else "boss") for at, who in enumerate(chain)]
    ran = run(bank, [*plans, plan(tells("end", "chief"))], mends)
    assert len(bank.paid) == 1
    problem = ran.events("plan_rejected")[-1].violations[0]
    assert "has meant this very call of 'pay' already" in problem
    assert "if that was made in its place, leave it out" in problem


def test_what_was_moved_in_another_place_stands_for_nothing_else() -> None:
    bank = Bank(Ann=1, Bob=1, Ann2=1)
    both = plan(
        step("b", "pay", parameters={"to": "Ann", "cents": 500}),
        step("a", "pay", parameters={"to": "Bob", "cents": 500}),
        tells("m", "boss", "a", "b"),
    )
    mends = [MOVED, *[REPLAN] * 5]
    moved = plan(step("b2", "pay", parameters={"to": "Ann2", "cents": 500}), tells("m2", "boss", "b2"))
    bob = plan(step("a3", "pay", parameters={"to": "Bob", "cents": 500}), tells("m3", "chief", "a3"))
    ran = run(bank, [both, moved, bob], mends)
    assert bank.paid == ["Ann2", "Bob"]
    assert ran.result.is_success
