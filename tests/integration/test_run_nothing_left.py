"""A planner that says by the steps alone that nothing is left is told once what is owed, and how a step says that it stands for it."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Ran, bench, plan
from test_run_left_out import ANEW, GIVE_UP
from test_run_recovery import overall
from test_run_very_effects import BOSS, MORE, Bank, pays

from replan.testing import virtual_time

FIRST = {**plan(pays("a", "Ann")), "more": MORE}
IN_ITS_PLACE = plan(pays("b", "Ann2"), BOSS)
NOTHING = plan()
SAYS_SO = plan({**pays("b", "Ann2"), "instead_of": ["a"]})


async def asked(*plans: Any, goes_on: int = 0) -> tuple[Bank, Ran]:
    bank = Bank(closed={"Ann": 9})
    made = await bench(
        bank.tools(),
        {
            "execution_plan": [FIRST, *plans],
            "step_reflection": [GIVE_UP] * 20,
            "overall_reflection": [ANEW, ANEW, *[overall(False)] * 9],
        },
    )
    task_id = await made.submit(interactive=bool(goes_on), evaluation="steps")
    ran = await made.drive(task_id)
    for _ in range(goes_on):
        assert ran.result.status == "waiting"
        await made.service.answer(task_id, "go on", ran.result.waiting_for[0].id)
        ran = await made.drive(task_id)
    return bank, ran


def told(ran: Ran) -> list[str]:
    return [text for one in ran.events("plan_rejected") for text in one.violations]


def test_the_correction_says_what_is_owed_and_how_a_step_stands_for_it() -> None:
    bank, ran = virtual_time(asked(IN_ITS_PLACE, NOTHING, SAYS_SO))
    assert ran.result.is_success
    assert bank.paid == ["Ann2"]
    (once,) = told(ran)
    assert "step 'a' (pay)" in once
    assert "step 'b' (pay) stands for it" in once
    assert "`instead_of`" in once
    assert "step 'a' (pay)" in " ".join(ran.result.shortfall)


def test_said_again_it_counts_and_the_end_says_what_is_missing() -> None:
    _, ran = virtual_time(asked(IN_ITS_PLACE, NOTHING, NOTHING))
    assert ran.result.status == "failed"
    assert "step 'a' (pay) of an earlier plan failed" in (ran.result.reason or "")
    assert "nothing is left to be done" in (ran.result.reason or "")
    assert ran.model.calls["execution_plan"] == 4


def test_what_fails_in_the_plan_of_now_is_owed_too() -> None:
    _, ran = virtual_time(asked(plan(pays("b", "Ann"), BOSS), NOTHING, NOTHING))
    assert "step 'b' (pay) failed: the counter of Ann is closed" in told(ran)[-1]


@pytest.mark.parametrize("times", [1, 3])
def test_going_on_with_nothing_left_costs_two_requests_each_time(times: int) -> None:
    _, ran = virtual_time(asked(IN_ITS_PLACE, *[NOTHING] * 20, goes_on=times))
    assert ran.result.status == "waiting"
    assert ran.model.calls["execution_plan"] == 2 + 2 * (times + 1)


def test_a_person_who_goes_on_may_hear_it_from_a_planner_that_says_so_at_last() -> None:
    bank, ran = virtual_time(asked(IN_ITS_PLACE, NOTHING, NOTHING, NOTHING, SAYS_SO, goes_on=1))
    assert ran.result.is_success
    assert bank.paid == ["Ann2"]
