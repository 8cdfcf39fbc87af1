"""A call that was not made, since its effect is had, may be given just the call that is done: its step has the output of that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from run_tasks import Ran, action, bench, plan, step
from test_run_left_out import ANEW
from test_run_recovery import overall, reflection
from test_run_very_effects import MORE, Bank, over, pays, reads

from replan.testing import virtual_time

ON = reflection("trigger_overall_reflection", {"summary": "it cannot be mended here"}, "unknown")


def obeys(**parameters: str) -> dict[str, Any]:
    return reflection("retry_with_params", parameters, "unknown")


def run(
    bank: Bank, *plans: tuple[list[dict[str, Any]], str], said: list[dict[str, Any]], **policy: Any
) -> Ran:
    async def main() -> Ran:
        answers = {
            "execution_plan": [{**plan(*steps), "more": more} for steps, more in plans],
            "step_reflection": [*said, *[ON] * 9],
            "overall_reflection": [*[ANEW] * (len(plans) - 1), overall(False)],
        }
        return (await (await bench(bank.tools(), answers)).run(evaluation="steps", **policy)).check()

    return virtual_time(main())


def told(ran: Ran) -> str:
    """What a model was told of its proposals."""
    return "\n".join(turn.text for one in ran.model.requests for turn in one.turns[1:])


DONE = pytest.mark.parametrize("tool", ["pay", "upay"])


@DONE
@pytest.mark.parametrize("first", [[], [obeys(note="second try")]], ids=["at once", "when it is told"])
def test_in_its_own_plan(first: list[Any], tool: str) -> None:
    bank = Bank()
    steps = [
        pays("a", "Ann", tool=tool),
        *reads("x", "Ann", "a", tool=tool),
        step("m", "tell", "x", parameters={"to": "no ${x.output.id}"}),
    ]
    ran = run(bank, (steps, ""), said=[*first, obeys(to="Ann")])
    assert ran.result.is_success
    assert bank.paid == ["Ann"]
    assert ran.outputs()["x"] == ran.outputs()["a"]
    assert ("propose just the call that is done" in told(ran)) == bool(first)
    assert "was tried for this step already" not in told(ran)


@DONE
def test_in_a_later_part(tool: str) -> None:
    bank = Bank()
    first = over("a", "Ann", tool=tool)
    then = [*reads("x", "Ann", tool=tool), pays("n", "Bob", "x", tool=tool)]
    ran = run(bank, (first, MORE), (then, ""), said=[obeys(to="Ann", session="s1")])
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob"])


@pytest.mark.parametrize(
    "same",
    [
        step("x", "upay", "vx", parameters={"to": "${item}"}, for_each='["Ann", "Bob", "${vx.output.name}"]'),
        step("x", "", "vx", actions=[action("x1", "upay", to="Ann"), action("x2", "upay", to="Bob"), action("x3", "upay", to="${vx.output.name}")]),
    ],
    ids=["list", "actions"],
)  # fmt: skip
def test_one_after_the_other_in_one_step(same: dict[str, Any]) -> None:
    bank = Bank()
    who = step("vx", "who", parameters={"of": "Ann"})
    ran = run(
        bank,
        ([who, same, step("m", "tell", "x", parameters={"to": "boss"})], ""),
        said=[obeys(to="Ann")],
        max_parallelism=1,
    )
    assert ran.result.is_success
    assert bank.paid == ["Ann", "Bob"]


@DONE
@pytest.mark.parametrize(
    "other",
    [obeys(to="Bob"), obeys(to="Ann", note="another"), reflection("retry_with_tool", {"tool_id": "tell", "parameters": {"to": "Ann"}}, "unknown")],
    ids=["somebody else", "in other words", "another tool"],
)  # fmt: skip
def test_nothing_else_is_made_in_its_place(other: dict[str, Any], tool: str) -> None:
    bank = Bank()
    steps = [pays("a", "Ann", tool=tool), *reads("x", "Ann", "a", tool=tool)]
    ran = run(bank, (steps, ""), said=[other] * 4)
    assert not ran.result.is_success
    assert bank.paid == ["Ann"]
    assert ran.source.counts["tell"] == 0


def test_a_place_that_is_answered_has_had_no_effect_that_failed_there() -> None:
    bank = Bank(closed={"Bob": 1})
    steps = [pays("a", "Ann"), pays("x", "Bob", "a")]
    ran = run(bank, (steps, ""), said=[obeys(to="Ann"), obeys(to="Ann")])
    assert bank.paid == ["Ann"]
    assert not ran.result.is_success


# ── two of them at once ───────────────────────────────────────────────────────

WHO = [step(f"v{n}", "who", parameters={"of": "Ann"}) for n in (1, 2)]
BOTH = [f"${{v{n}.output.name}}" for n in (1, 2)]
AT_ONCE = pytest.mark.parametrize(
    "twins",
    [
        [pays("a", BOTH[0], "v1"), pays("b", BOTH[1], "v2")],
        [pays("a", BOTH[0], "v1", tool="upay"), step("b", "upay", "v2", parameters={"to": BOTH[1], "note": "x"})],
        [step("a", "upay", "v1", "v2", parameters={"to": "${item}"}, for_each=f'["{BOTH[0]}", "Bob", "{BOTH[1]}"]')],
        [step("a", "", "v1", "v2", actions=[action("a1", "upay", to=BOTH[0]), action("a2", "upay", to=BOTH[1], note="x")])],
    ],
    ids=["steps", "steps in other words", "list", "actions"],
)  # fmt: skip


@AT_ONCE
def test_a_failure_that_names_its_remedy_is_mended_where_another_was_not_made_because_of_it(
    twins: list[Any],
) -> None:
    bank = Bank(closed={"Ann": 9})
    ran = run(bank, ([*WHO, *twins], ""), said=[obeys(to="Ann2")] * 12)
    assert Counter(bank.paid)["Ann2"] == 1
    assert "Ann" not in bank.paid
    errors = [one.error.message for one in ran.events("step_reflected")]
    assert "the counter of Ann is closed just now" in errors[0]


@AT_ONCE
def test_where_the_first_of_two_has_failed_the_other_is_tried_as_it_is(twins: list[Any]) -> None:
    bank = Bank(closed={"Ann": 1})
    run(bank, ([*WHO, *twins], ""), said=[])
    assert Counter(bank.paid)["Ann"] == 1


@AT_ONCE
def test_where_the_first_of_two_is_had_the_other_may_be_given_that(twins: list[Any]) -> None:
    bank = Bank()
    tool = "pay" if twins[0]["tool"] == "pay" else "upay"
    just_that = {"tool_id": tool, "parameters": {"to": "Ann"}}  # without the words of its own
    ran = run(bank, ([*WHO, *twins], ""), said=[reflection("retry_with_tool", just_that, "unknown")] * 3)
    assert ran.result.is_success
    assert Counter(bank.paid)["Ann"] == 1


@DONE
def test_a_call_that_was_had_at_a_second_try_is_waited_for_no_more(tool: str) -> None:
    bank = Bank(busy=["Ann"])
    first, then = [pays("a", "Ann", tool=tool)], reads("x", "Ann", tool=tool)
    ran = run(bank, (first, MORE), (then, ""), said=[obeys(to="Ann")])
    assert ran.result.is_success
    assert bank.paid == ["Ann"]
    assert {one.error.kind for one in ran.events("step_reflected")} == {"repeated"}
