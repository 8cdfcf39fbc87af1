"""A plan of a fork that does the same by both of two tools, where another task has had as many by one of them."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Ran, action, bench, plan, step
from test_run_forks_alike import Bank, fork_of
from test_run_forks_counted import sends

from replan.testing import virtual_time

BOTH: dict[str, Any] = {
    "side by side": [
        step("s", "send", "l", parameters={"to": "ann"}),
        step("w", "wire", "l", parameters={"recipient": "ann"}),
    ],
    "the one first": [
        step("s", "send", "l", parameters={"to": "ann"}),
        step("w", "wire", "s", parameters={"recipient": "ann"}),
    ],
    "the other first": [
        step("w", "wire", "l", parameters={"recipient": "ann"}),
        step("s", "send", "w", parameters={"to": "ann"}),
    ],
    "in one step": [
        step("b", "", "l", actions=[action("x", "send", to="ann"), action("y", "wire", recipient="ann")])
    ],
    "a list": [
        step("s", "send", "l", for_each=["bob", "ann"], parameters={"to": "${item}"}),
        step("w", "wire", "l", parameters={"recipient": "ann"}),
    ],
    "two lists": [
        step("s", "send", "l", for_each=["bob", "ann"], parameters={"to": "${item}"}),
        step("w", "wire", "l", for_each=["ann", "cyd"], parameters={"recipient": "${item}"}),
    ],
}


@pytest.mark.parametrize("both", [*BOTH])
@pytest.mark.parametrize("had", [1, 2, 3])
def test_no_more_is_had_than_one_of_the_plans_is_owed(both: str, had: int) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        ran = (await made.run(sends(*[f"s{n}" for n in range(had)], repeat=True))).check()
        assert bank.paid == ["ann"] * had
        return bank, await fork_of(made, ran, "plan_generated", plan=plan(step("l", "login"), *BOTH[both]))

    bank, fork = virtual_time(main())
    assert bank.paid.count("ann") <= max(had, 2)
    if fork.result.is_success:
        assert bank.paid.count("ann") >= 2
