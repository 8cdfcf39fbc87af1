"""A token, a session or a time of day that is another in each round is nothing new: the same failures end the task within a few rounds."""

from __future__ import annotations

import itertools
import string
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_left_out import ANEW, GIVE_UP

from replan.core.recovery.guard import MOST_BARREN, MOST_POLLED, MOST_STIRRED
from replan.errors import ToolCallError
from replan.testing import virtual_time

VOLATILE: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}
BOTH = pytest.mark.parametrize("judge", ["steps", "model"])


def run(written: Any, *, judge: str, score: float = 40) -> Ran:
    """`written`: the steps of each round, by the id that its reading has."""
    numbers = itertools.count(1)
    letters = iter(string.ascii_lowercase * 9)
    sent = itertools.count(1)

    def closed(_: Any) -> Any:
        raise ToolCallError("the register is closed", kind="tool")

    tools = {
        "token": FakeTool(output=lambda _: {"token": f"t{next(numbers)}"}, **VOLATILE),
        "register": FakeTool(output=closed, effect="once"),
        "look": FakeTool(output=closed, effect="reads"),
        "pay": FakeTool(output=lambda _: next(sent), effect="once"),
    }

    async def main() -> Ran:
        answers = {
            "execution_plan": lambda _: plan(*written(f"read_{next(letters)}{next(letters)}")),
            "step_reflection": lambda _: GIVE_UP,
            "overall_reflection": lambda _: ANEW,
            "evaluation": lambda _: verdict(score),
        }
        return (await (await bench(tools, answers)).run(evaluation=judge)).check()

    return virtual_time(main())


@BOTH
@pytest.mark.parametrize("failing", ["look", "register"])
@pytest.mark.parametrize("needs", [True, False], ids=["before it", "beside it"])
def test_a_token_made_anew_is_nothing_new_where_the_same_fails(needs: bool, failing: str, judge: str) -> None:
    def written(name: str) -> list[Any]:
        after = [name] if needs else []
        return [step(name, "token"), step(f"{name}_end", failing, *after, parameters={"as": "it is"})]

    ran = run(written, judge=judge)
    assert ran.result.status == "failed"
    assert MOST_BARREN < ran.result.total_rounds <= MOST_STIRRED + 1
    assert len(ran.model.requests) <= 30
    assert "brought nothing new: the same failures" in str(ran.result.reason)


@BOTH
def test_nor_where_what_it_is_for_never_runs(judge: str) -> None:
    def written(name: str) -> list[Any]:
        token = {"token": f"${{{name}.output.token}}"}
        return [
            step(name, "token"),
            step(f"{name}_ask", "look", parameters={"as": "it is"}),
            step(f"{name}_pay", "pay", f"{name}_ask", parameters=token),
        ]

    ran = run(written, judge=judge)
    assert ran.result.total_rounds <= MOST_STIRRED + 1
    assert len(ran.model.requests) <= 30
    assert "pay" not in ran.source.counts


def test_a_poll_for_which_who_judges_waits_goes_on_longer_and_ends_all_the_same() -> None:
    ran = run(lambda name: [step(name, "token")], judge="model")
    assert ran.result.status == "failed"
    assert MOST_STIRRED + 1 < ran.result.total_rounds <= MOST_POLLED + 1
