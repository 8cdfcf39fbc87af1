"""Tasks of a family of forks that mend what was refused at the same time, and have something that the others want: nobody waits in a circle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_forks_alike import Bank, Slow, takes
from test_run_recovery import overall, reflection

from replan.core.limits.policy import Budget, Policy
from replan.ports import ModelRequest
from replan.testing import virtual_time

LONG = Budget(task_timeout_secs=5_000)
"""Beyond what anybody has to wait for."""


def instead(tool: str, name: str) -> dict[str, Any]:
    return reflection("retry_with_tool", {"tool_id": tool, "parameters": {name: "bob"}}, "tool_error")


def mended(request: ModelRequest) -> dict[str, Any]:
    """The one by the other tool, once."""
    asked = " ".join(turn.text for turn in request.turns)
    if "task '" in asked:
        return reflection("abort", {"reason": "no way"})
    of_send = '"to"' in asked and '"recipient"' not in asked
    return instead("wire", "recipient") if of_send else instead("send", "to")


ANSWERS: dict[str, Any] = {"evaluation": verdict(), "overall_reflection": overall()}
ABORTS = reflection("abort", {"reason": "no way"})


async def family(
    bank: Bank, plans: list[dict[str, Any]], ahead: float, replies: dict[str, Any], **more: Any
) -> list[Ran]:
    """Forks of one task, each begun so long after the one before."""
    made = await bench(bank.tools() | more.pop("tools", {}), model=Slow(replies))
    task_id = await made.submit(plan(step("l", "login")))
    await made.drive(task_id)
    at = at_of(await made.ran(task_id), "plan_generated") - 1
    policy = Policy(budget=LONG, **more)
    forks = [await forked(made, task_id, at=at, plan=one, policy=policy) for one in plans]

    async def drive(name: str, after: float) -> None:
        await asyncio.sleep(after)
        await made.drive(name)

    await asyncio.gather(*(drive(one, 1 + ahead * n) for n, one in enumerate(forks)))
    return [(await made.ran(one)).check() for one in forks]


def in_time(ran: list[Ran]) -> bool:
    return all(one.result.status in ("succeeded", "failed") for one in ran)


@pytest.mark.parametrize("ahead", [-4.0, -0.05, 0.0, 0.05, 4.0, 6.0, 70.0])
@pytest.mark.parametrize("refuses", [["bob"], ["bob"] * 2, ["bob"] * 3])
def test_what_one_mends_by_the_very_call_that_another_is_about_to_make(
    ahead: float, refuses: list[str]
) -> None:
    one = plan(step("l", "login"), step("s", "send", "l", parameters={"to": "bob"}))
    other = plan(step("l", "login"), step("w", "wire", "l", parameters={"recipient": "bob"}))
    bank = Bank(refuses=refuses)
    replies = {**ANSWERS, "step_reflection": mended}
    ran = virtual_time(family(bank, [one, other], ahead, replies))
    assert bank.paid in ([], ["bob"])
    assert in_time(ran)


def each(tool: str, *people: str) -> dict[str, Any]:
    more = {"session": "${l.output.session}", "cents": 1} if tool == "pay" else {}
    return plan(
        step("l", "login"),
        step("each", tool, "l", for_each=[*people], parameters={"to": "${item}", **more}),
    )


@pytest.mark.parametrize("tool", ["note", "send", "pay"])
@pytest.mark.parametrize("ahead", [0.0, 2.0, 6.0])
@pytest.mark.parametrize("count", [2, 3])
def test_lists_in_another_order_of_which_each_has_one_that_was_refused(
    tool: str, ahead: float, count: int
) -> None:
    """The step of the refused one is not at its end before the other one is, which is refused in the other task."""
    people = ["ann", "bob", "cyd"]
    plans = [each(tool, *people[n:], *people[:n]) for n in range(count)]
    bank = Bank(refuses=people * 2)
    note = FakeTool(output=bank.pay, delay_secs=5, **takes("to"))
    replies = {**ANSWERS, "step_reflection": ABORTS}
    ran = virtual_time(family(bank, plans, ahead, replies, tools={"note": note}, parallel_max_concurrent=1))
    assert all(bank.paid.count(to) <= 1 for to in people)
    assert in_time(ran)


@pytest.mark.parametrize("ahead", [0.0, 2.0, 6.0])
def test_like_calls_of_a_list_of_which_one_was_refused(ahead: float) -> None:
    plans = [each("send", *["ann"] * 3) for _ in range(3)]
    bank = Bank(refuses=["ann"] * 4)
    ran = virtual_time(family(bank, plans, ahead, {**ANSWERS, "step_reflection": ABORTS}))
    assert len(bank.paid) <= 3
    assert in_time(ran)
