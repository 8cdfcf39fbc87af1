"""Two forks at once, of which one is about to make a call that another one's stands in for, or each that of the other: nobody waits in a circle.

Which of them takes what first is a matter of chance: all of it is tried on slow stores, so that each comes between any two steps of the other.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_forks_alike import Slow, takes
from test_run_recovery import overall, reflection

from replan.core.limits.policy import Budget, Policy
from replan.ports import ModelRequest
from replan.testing import MemoryStore, virtual_time
from slow_stores import Delayed

LONG = Budget(task_timeout_secs=5_000)


async def forks_of(
    seed: int, tools: dict[str, Any], mends: Any, plans: list[dict[str, Any]], apart: float = 0
) -> list[Ran]:
    """Two forks of one task from before its plan, each with a plan of its own."""
    replies = {"step_reflection": mends, "evaluation": verdict(), "overall_reflection": overall()}
    made = await bench(tools, store=Delayed(MemoryStore(), Random(seed)), model=Slow(replies))
    task_id = await made.submit(plan(step("n", "note")))
    await made.drive(task_id)
    at = at_of(await made.ran(task_id), "plan_generated") - 1
    policy = Policy(budget=LONG)
    forks = [await forked(made, task_id, at=at, plan=one, policy=policy) for one in plans]

    async def drive(name: str, after: float) -> None:
        await asyncio.sleep(after)
        await made.drive(name)

    await asyncio.gather(*(drive(one, 1 + apart * n) for n, one in enumerate(forks)))
    return [(await made.ran(one)).check() for one in forks]


class Book:
    """What was paid; of each of these the first try is refused."""

    def __init__(self, *refused: str) -> None:
        self.refused = [*refused]
        self.paid: list[str] = []

    def tool(self, name: str, secs: float = 0.05) -> FakeTool:
        def pay(one: Any) -> Any:
            what = f"{name} {one['to']}"
            if what in self.refused:
                self.refused.remove(what)
                raise ValueError(f"to: {one['to']} is locked")
            self.paid.append(what)
            return {"id": len(self.paid)}

        return FakeTool(output=pay, delay_secs=secs, **takes("to"))

    def tools(self) -> dict[str, Any]:
        return {
            "note": FakeTool(),
            "pay": self.tool("pay"),
            "send": self.tool("send"),
            "slow": self.tool("slow", 200),
        }


def gives_up(request: ModelRequest) -> dict[str, Any] | None:
    """Once it is told what another task does."""
    told = any("task '" in turn.text for turn in request.turns)
    return reflection("abort", {"reason": "no way"}) if told else None


@pytest.mark.parametrize("secs", [60.02, 60.05, 60.08, 60.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_planned_call_that_another_task_takes_as_what_stands_in_for_it_is_begun(
    seed: int, secs: float
) -> None:
    """The first fork waits for what the second does slowly, so the second does not wait for what the first may yet mend."""
    book = Book("pay ann")

    def mends(request: ModelRequest) -> dict[str, Any]:
        other = reflection("retry_with_params", {"parameters": {"to": "ann2"}})
        return gives_up(request) or other

    ann, bob = (
        step("ann", "pay", parameters={"to": "ann"}),
        step("bob", "slow", parameters={"to": "bob"}),
    )
    waits = {
        name: step(name, "wait_for_time", parameters={"seconds": by}) for name, by in (("v", 1), ("w", secs))
    }
    plans = [
        plan(ann, waits["v"], {**bob, "dependencies": ["v"]}),
        plan(bob, waits["w"], {**ann, "dependencies": ["w"]}),
    ]
    ran = virtual_time(forks_of(seed, book.tools(), mends, plans))
    assert sorted(book.paid) in (["pay ann", "slow bob"], ["pay ann2", "slow bob"])
    assert sorted(one.result.status for one in ran) == ["failed", "succeeded"]


@pytest.mark.parametrize("apart", [0.0, 0.03])
@pytest.mark.parametrize("seed", range(6))
def test_each_mends_by_the_call_that_the_other_has_planned(seed: int, apart: float) -> None:
    """By tools that nobody has declared to do the same."""
    book = Book("pay ann", "send ann")

    def mends(request: ModelRequest) -> dict[str, Any]:
        asked = " ".join(turn.text for turn in request.turns)
        by = "send" if "by_pay" in asked else "pay"
        other = reflection("retry_with_tool", {"tool_id": by, "parameters": {"to": "ann"}}, "tool_error")
        return gives_up(request) or other

    plans = [plan(step(f"by_{name}", name, parameters={"to": "ann"})) for name in ("pay", "send")]
    ran = virtual_time(forks_of(seed, book.tools(), mends, plans, apart))
    assert len(book.paid) == 1
    assert all(one.result.status == "failed" for one in ran), "nobody has said that it does the same"
