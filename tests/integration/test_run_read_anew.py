"""A plan that makes a volatile reading anew is another plan from whatever step on it is written."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_left_out import GIVE_UP
from test_run_recovery import overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time

BY_OWN = reflection("replan", {"reason": "it has to be asked for again"}, "parameter_error")
ASKED = pytest.mark.parametrize(
    ("how", "start"),
    [
        ("replan_from_step", "p"),
        ("replan_from_step", "l"),
        ("full_replan", None),
        ("own", None),
    ],
)


def run(
    *plans: list[dict[str, Any]],
    good: int,
    how: str = "replan_from_step",
    start: str | None = "p",
    volatile: bool = True,
    effect: Any = "once",
) -> Ran:
    """`good`: the reading after which it works; the last plan again for as long as one is asked for."""

    def use(parameters: Any) -> Any:
        if parameters["of"] < good:
            raise ToolCallError("what it goes by is out of date, ask again", kind="tool")
        return "done"

    async def main() -> Ran:
        readings = itertools.count(1)
        tools = {
            "ask": FakeTool(
                output=lambda _: next(readings), effect="reads", spec={"volatile": True} if volatile else {}
            ),
            "use": FakeTool(output=use, effect=effect),
            "tell": FakeTool(output="told", effect="once"),
        }
        anew = overall(
            True,
            replanning_strategy={
                "type": "full_replan" if how == "own" else how,
                "step_id": start,
                "reason": "it is out of date",
            },
        )
        answers = {
            "execution_plan": [*map(_plan, plans), *[_plan(plans[-1])] * 40],
            "step_reflection": [BY_OWN if how == "own" else GIVE_UP] * 60,
            "overall_reflection": [anew] * 60,
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    return virtual_time(main())


def _plan(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return plan(*steps)


def tried(n: int, *, reads: int | None = None) -> list[dict[str, Any]]:
    """The n-th plan: it asks, and goes by that; `reads`: it goes by what was asked then."""
    ask, name = f"l{n or ''}", f"p{n or ''}"
    by = ask if reads is None else f"l{reads or ''}"
    last = step(f"m{n or ''}", "tell", name, parameters={"to": "boss"})
    use = step(name, "use", *([ask] if by == ask else []), parameters={"of": f"${{{by}.output}}"})
    return [*([step(ask, "ask")] if by == ask else []), use, last]


@ASKED
@pytest.mark.parametrize("effect", ["once", "reads", "repeatable"])
def test_a_value_that_is_out_of_date_is_asked_for_again(how: str, start: str | None, effect: str) -> None:
    ran = run(tried(0), tried(1), good=2, how=how, start=start, effect=effect)
    assert ran.result.is_success
    assert not ran.events("plan_rejected")
    assert ran.source.counts["tell"] == 1


@ASKED
def test_and_once_more_as_long_as_it_gives_something_else(how: str, start: str | None) -> None:
    ran = run(tried(0), tried(1), tried(2), good=3, how=how, start=None if start else start)
    assert ran.result.is_success


def test_under_the_id_of_what_stays_it_is_told_to_take_a_new_one() -> None:
    ran = run(tried(0), tried(0), tried(1), good=2)
    assert "give it a new id" in ran.events("plan_rejected")[0].violations[0]
    assert ran.result.is_success


def test_what_stays_is_not_read_again_by_a_plan_that_only_goes_by_it() -> None:
    ran = run(tried(0), tried(1, reads=0), good=2)
    assert not ran.result.is_success
    assert "the same as an earlier one" in ran.events("plan_rejected")[0].violations[0]


def test_a_reading_that_stays_as_it_is_makes_no_other_plan() -> None:
    ran = run(tried(0), tried(1), good=2, volatile=False)
    assert not ran.result.is_success
    assert "the same as an earlier one" in ran.events("plan_rejected")[0].violations[0]


def test_what_never_gives_what_is_wanted_comes_to_an_end() -> None:
    ran = run(*[tried(n) for n in range(30)], good=1_000)
    assert not ran.result.is_success
    assert ran.result.total_rounds <= 25
