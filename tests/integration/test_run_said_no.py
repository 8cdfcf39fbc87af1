"""A person's no holds for later plans too: one that states the call once more is not tried for long, and a "go on" that brings nothing costs little."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_left_out import ANEW, GIVE_UP
from test_run_people import TO

from replan.testing import virtual_time


def pays(name: str, to: str) -> dict[str, Any]:
    return step(name, "pay", parameters={"to": to})


class SameAgain:
    """A planner that states the payment once more, `times` often, each time with another thing to look up, so that no plan is one before."""

    def __init__(self, times: int = 99) -> None:
        self.times, self.count = times, 0

    def __call__(self, request: Any) -> dict[str, Any]:
        self.count += 1
        n = self.count
        if n > self.times:
            return plan(pays("b", "Bob"))
        return plan(pays(f"p{n}", "Ann"), step(f"r{n}", "look", parameters={"to": f"file {n}"}))


class Desk:
    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, parameters: Any) -> Any:
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    async def rejected(self, plans: Any, reason: str = "") -> tuple[Bench, str, Ran]:
        """The task, where Ann is to be paid and somebody has said no to that."""
        tools = {
            "pay": FakeTool(output=self.pay, parameters=TO, effect="once"),
            "look": FakeTool(output="read", parameters=TO, effect="reads"),
        }
        made = await bench(
            tools,
            {
                "execution_plan": plans,
                "step_reflection": [GIVE_UP] * 99,
                "overall_reflection": lambda request: ANEW,
            },
        )
        task_id = await made.submit(interactive=True, approval="destructive", evaluation="steps")
        ran = await made.drive(task_id)
        assert ran.result.waiting_for[0].kind == "approval"
        one = ran.result.waiting_for[0].id
        await made.service.resolve_approval(task_id, approved=False, approval_id=one, reason=reason)
        return made, task_id, await made.drive(task_id)


async def go_on(made: Bench, task_id: str, ran: Ran, said: str = "go on") -> Ran:
    await made.service.answer(task_id, said, ran.result.waiting_for[0].id)
    return await made.drive(task_id)


def test_going_on_without_anything_new_costs_few_requests_each_time() -> None:
    async def main() -> tuple[list[int], Ran]:
        made, task_id, ran = await desk.rejected(SameAgain())
        costs = [sum(ran.model.calls.values())]
        for _ in range(4):
            assert ran.result.status == "waiting"
            assert ran.result.waiting_for[0].kind == "intervention"
            ran = await go_on(made, task_id, ran)
            costs.append(sum(ran.model.calls.values()))
        return costs, ran

    desk = Desk()
    costs, ran = virtual_time(main())
    assert costs[0] <= 8
    assert [after - before for before, after in pairwise(costs)] == [4] * 4
    assert not desk.paid
    assert len(ran.events("approval_requested")) == 1, "nobody is asked for it again"
    assert ran.model.calls["step_reflection"] == 1, "of a no that was said before nobody asks why"


@pytest.mark.parametrize("how", [1, 2, 3])
def test_a_plan_without_it_is_made_whenever_it_comes(how: int) -> None:
    """At once, or after plans that state it once more."""

    async def main() -> Ran:
        made, task_id, ran = await desk.rejected(SameAgain(how), reason="pay Bob")
        if ran.result.waiting_for[0].kind == "intervention":
            ran = await go_on(made, task_id, ran, "pay Bob in her place")
        assert [one.parameters["to"] for one in ran.result.waiting_for] == ["Bob"]
        await made.service.resolve_approval(task_id, approved=True, approval_id=ran.result.waiting_for[0].id)
        return await made.drive(task_id)

    desk = Desk()
    ran = virtual_time(main())
    assert desk.paid == ["Bob"]
    assert ran.events("call_completed", tool_id="pay")
