"""Two doubts of a list that a person answers with no: what was made since, by whichever step, is had, and nothing of it is missing."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from run_tasks import Ran, bench, plan, step
from test_run_left_out import ANEW, BY_STEPS_AND_MODEL, GIVE_UP
from test_run_recovery import overall
from test_run_very_effects import BOSS, Bank

from replan.errors import ToolCallError
from replan.testing import virtual_time

EVERY = ["Ann", "Bob", "Cid"]
JUDGED = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": {"completeness": 95, "correctness": 90, "efficiency": 80, "reliability": 80},
    "final_output": "done",
}


class Unsteady(Bank):
    """The connection breaks before so many payments to somebody."""

    def __init__(self, breaks: dict[str, int]) -> None:
        super().__init__()
        self.breaks = dict(breaks)

    def pay(self, parameters: Any) -> Any:
        if self.breaks.get(parameters["to"], 0) > 0:
            self.breaks[parameters["to"]] -= 1
            raise ToolCallError("connection reset by peer", kind="connection_lost")
        return super().pay(parameters)


def by_list(name: str, whom: list[str], session: str) -> list[Any]:
    told = {"to": "${item}", "session": f"${{{session}.output.session}}"}
    return [step(session, "token"), step(name, "pay", session, parameters=told, for_each=whom)]


def by_steps(name: str, whom: list[str], session: str) -> list[Any]:
    told = f"${{{session}.output.session}}"
    made = [step(f"{name}{who}", "pay", session, parameters={"to": who, "session": told}) for who in whom]
    return [step(session, "token"), *made]


async def answered(bank: Bank, first: list[Any], second: list[Any], **way: Any) -> Ran:
    """A person says of each doubt how it is, and then goes on."""
    made = await bench(
        bank.tools(),
        {
            "execution_plan": [plan(*first), plan(*second), *[plan()] * 9],
            "step_reflection": [GIVE_UP] * 20,
            "overall_reflection": [ANEW, *[overall(False)] * 9],
            "evaluation": [JUDGED] * 9,
        },
    )
    task_id = await made.submit(interactive=True, **way)
    ran = await made.drive(task_id)
    for _ in range(9):
        if ran.result.status != "waiting":
            break
        one = ran.result.waiting_for[0]
        whom = re.findall(r'"to":"(\w+)"', one.text)
        said = "go on" if one.kind != "outcome" else "yes" if whom[0] in bank.paid else "no"
        await made.service.answer(task_id, said, one.id)
        ran = await made.drive(task_id)
    return ran


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("rest_by", [by_list, by_steps])
@pytest.mark.parametrize("doubtful", [["Ann", "Bob"], ["Bob", "Cid"], ["Ann", "Cid"], EVERY], ids=str)
def test_what_was_made_before_the_plan_was_made_anew_is_not_missing(
    doubtful: list[str], rest_by: Any, way: dict[str, Any]
) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Unsteady(dict.fromkeys(doubtful, 1))
        first = [*by_list("p", EVERY, "l"), {**BOSS, "dependencies": ["p"]}]
        rest = [*rest_by("q", doubtful[1:], "l2"), {**BOSS, "step_id": "m2"}]
        return bank, await answered(bank, first, rest, **way)

    bank, ran = virtual_time(main())
    assert Counter(bank.paid) == Counter(EVERY)
    assert ran.result.is_success
    assert ran.result.total_rounds <= 2


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("rest", [["Bob"], ["Cid"]])
def test_what_nobody_has_made_since_is_still_missing(rest: list[str], way: dict[str, Any]) -> None:
    async def main() -> Ran:
        bank = Unsteady(dict.fromkeys(EVERY, 1))
        first = [*by_list("p", EVERY, "l"), {**BOSS, "dependencies": ["p"]}]
        again = [*by_steps("q", rest, "l2"), {**BOSS, "step_id": "m2"}]
        return await answered(bank, first, again, **way)

    assert not virtual_time(main()).result.is_success
