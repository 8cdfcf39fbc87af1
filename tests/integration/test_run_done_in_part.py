"""A list that is done in part, and done again: what was had before makes good nothing, and what fails once more is one effect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, bench, plan, verdict
from test_run_left_out import BY_STEPS_AND_MODEL, GIVE_UP, ONCE, TO, TOOLS, both, each, some, to
from test_run_recovery import overall

from replan.testing import virtual_time

HELP = {"type": "add_remediation_steps", "suggestions": ["look"], "reason": "it helps"}
ANEW = {"type": "full_replan", "reason": "it helps"}
LOOK = [to("k", "look", "Ann")]


def from_step(name: str) -> dict[str, Any]:
    return {"type": "replan_from_step", "step_id": name, "reason": "it helps"}


def run(
    first: list[dict[str, Any]],
    *later: tuple[dict[str, Any], list[dict[str, Any]]],
    said: Any = (),
    pay: Any = None,
    judged: Any = None,
    **way: Any,
) -> Ran:
    async def main() -> Ran:
        tools = TOOLS if pay is None else {**TOOLS, "pay": FakeTool(output=pay, parameters=TO, **ONCE)}
        made = await bench(
            tools,
            {
                "execution_plan": [plan(*first), *(plan(*steps) for _, steps in later)],
                "step_reflection": [GIVE_UP] * 19,
                "overall_reflection": [
                    *(overall(True, replanning_strategy=strategy) for strategy, _ in later),
                    overall(False),
                ],
                "evaluation": judged or [{**verdict(), "left_out_effects": one} for one in said] or verdict(),
            },
        )
        return (await made.run(**way)).check()

    return virtual_time(main())


def paid(ran: Ran) -> list[str]:
    done = ran.events("call_completed", tool_id="pay", reused=False)
    return sorted(one.output["id"] for one in done)


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (ANEW, [to("z", "pay", "Cid")])], id="by a step"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (ANEW, [each("z", "Cid")])], id="by a list"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (from_step("a"), [to("z", "pay", "Cid")])], id="from the step on"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, [to("b", "pay", "Cid")]), (ANEW, [to("z", "pay", "Cid")])],
                     id="the help has paid it too"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (ANEW, [each("z", "Bad", "Cid")]), (ANEW, [to("y", "pay", "Cid")])],
                     id="over four plans"),
        pytest.param(each("a", "Bad", "Bad2", "Cid", "Dan"), [(HELP, LOOK), (ANEW, [each("z", "Cid", "Dan")])], id="two of four"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (ANEW, [to("z", "pay", "Cid"), to("m", "tell", "Bob", "z")])],
                     id="with a message"),
        pytest.param(each("a", "Bad", "Cid"), [(from_step("a"), [each("a", "Cid")])], id="under its own id"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (from_step("a"), [each("a", "Cid")])], id="under its own id, with help before"),
        pytest.param(each("a", "Bad", "Cid"), [(HELP, LOOK), (from_step("a"), [both("a", "Cid")])], id="under its own id, by an action"),
    ],
)  # fmt: skip
def test_what_a_list_has_had_before_makes_good_nothing_that_it_has_not(
    first: dict[str, Any], later: list[Any], way: dict[str, Any]
) -> None:
    ran = run([first], *later, **way)
    assert not ran.result.is_success
    assert not [one for one in paid(ran) if one.startswith("Bad")]
    assert len(set(paid(ran))) == len(paid(ran))


@pytest.mark.parametrize("by", ["z", "a"])
def test_a_judge_that_names_what_was_had_before_is_told_that_it_was_for_itself(by: str) -> None:
    said = [[{"step": "a", "made_good_by": by}]] * 2
    ran = run([each("a", "Bad", "Cid")], (HELP, LOOK), (ANEW, [to("z", "pay", "Cid")]), said=said)
    assert not ran.result.is_success


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    "later",
    [
        pytest.param([(HELP, LOOK)], id="the same list"),
        pytest.param([(from_step("a"), [each("a", "Cid", "Ann", "Slow")])], id="a list in another order"),
        pytest.param([(HELP, LOOK), (ANEW, [each("z", "Slow", "Cid", "Ann")])], id="a list of another name"),
    ],
)
def test_a_list_whose_missing_item_is_had_at_a_second_try_is_done(
    later: list[Any], way: dict[str, Any]
) -> None:
    tries: list[str] = []

    def pay(parameters: Any) -> Any:
        tries.append(parameters["to"])
        if tries.count("Slow") == 1 and tries[-1] == "Slow":
            raise ValueError("not yet")
        return {"id": parameters["to"]}

    ran = run([each("a", "Slow", "Cid", "Ann")], *later, pay=pay, **way)
    assert ran.result.is_success
    assert ran.result.shortfall == ()
    assert paid(ran) == ["Ann", "Cid", "Slow"]


NAMES = st.lists(st.sampled_from(["Ann", "Ben", "Cid", "Bad", "Bad2"]), min_size=1, max_size=4, unique=True)


@given(NAMES, st.booleans(), st.data())
def test_by_steps_a_success_has_paid_as_many_as_were_asked_for_or_says_what_is_missing(
    asked: list[str], helped: bool, data: st.DataObject
) -> None:
    good = [name for name in asked if not name.startswith("Bad")]
    then = data.draw(st.lists(st.sampled_from(good), min_size=1, unique=True)) if good else ["Eve"]
    later: list[Any] = [(HELP, LOOK)] if helped else []
    ran = run([each("a", *asked)], *later, (ANEW, [each("z", *then)]), evaluation="steps")
    assert len(set(paid(ran))) == len(paid(ran))
    if ran.result.is_success:
        assert len(paid(ran)) >= len(asked)


NO = {**verdict(40.0), "is_successful": False, "failures": ["Bad has not been paid"]}


def yes(*accounts: dict[str, Any]) -> dict[str, Any]:
    return {**verdict(), "left_out_effects": list(accounts)}


@pytest.mark.parametrize(
    "then",
    [
        pytest.param((ANEW, [some("p", "Ann", "Bad", "Cid"), to("b", "tell", "Bad")]), id="anew"),
        pytest.param((from_step("a"), [some("p", "Ann", "Bad", "Cid"), to("b", "tell", "Bad")]), id="from the step on"),
        pytest.param((ANEW, [some("p", "Bad", "Cid"), to("b", "tell", "Bad")]), id="of some of it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", ["p", "a"])
def test_an_item_that_fails_once_more_where_the_list_is_stated_anew_is_one_effect(
    then: Any, named: str
) -> None:
    first = [some("a", "Ann", "Bad", "Cid"), to("r", "look", "Ann")]
    ran = run(first, then, judged=[NO, yes({"step": named, "made_good_by": "b"})])
    assert ran.result.is_success
    assert [one for one in ran.result.shortfall if "step 'a'" in one] == []
    [short] = [one for one in ran.result.shortfall if "made good by b" in one]
    assert short.startswith("step 'p' (pay) is without item")
    assert paid(ran) == ["Ann", "Cid"]


def test_of_two_items_that_fail_once_more_one_message_makes_good_one() -> None:
    first = [some("a", "Ann", "Bad", "Bad2"), to("r", "look", "Ann")]
    then = [some("p", "Ann", "Bad", "Bad2"), to("b", "tell", "Bad")]
    account = yes({"step": "p", "made_good_by": "b"})
    assert not run(first, (ANEW, then), judged=[NO, account, account]).result.is_success
    ran = run(
        first, (ANEW, [*then[:1], to("b", "tell", "${item}", for_each=["Bad", "Bad2"])]), judged=[NO, account]
    )
    assert ran.result.is_success


def test_a_further_item_of_the_list_that_is_stated_anew_makes_good_none_that_fails_again() -> None:
    first = [some("a", "Ann", "Bad"), to("r", "look", "Ann")]
    then = [some("p", "Ann", "Bad", "Dan")]
    ran = run(first, (ANEW, then), judged=[NO, yes(), yes()])
    assert not ran.result.is_success
    assert ran.result.failure is not None
    assert "step 'p' (pay) is without item 2" in ran.result.failure.reason


def test_by_steps_an_item_that_fails_in_two_plans_is_told_once() -> None:
    first = [some("a", "Ann", "Bad"), to("r", "look", "Bad", "a")]
    ran = run(first, (ANEW, [some("p", "Ann", "Bad"), to("s", "look", "Ann")]), evaluation="steps")
    assert ran.result.is_success
    assert [one for one in ran.result.shortfall if "(pay)" in one] == [
        "step 'p' (pay) is without item 2, which failed"
    ]


@pytest.mark.parametrize(
    "way",
    [{}, {"enable_step_level_reflection": False}, {"enable_step_level_reflection": False, "budget": {"max_tool_calls": 2}}],
    ids=["as it is", "no reflection on steps", "and a limit that is near"],
)  # fmt: skip
def test_a_judge_accounts_for_failed_items_whatever_else_has_happened_to_the_task(
    way: dict[str, Any],
) -> None:
    silent = run([some("a", "Ann", "Bad")], said=[[], []], **way)
    assert not silent.result.is_success
    told = run([some("a", "Ann", "Bad")], said=[[{"step": "a", "not_needed": "has left"}]], **way)
    assert told.result.is_success
    assert told.result.shortfall == ("step 'a' (pay) is without item 2, which failed; not needed: has left",)
