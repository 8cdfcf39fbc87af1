"""A plan says which failed step a new one is in place of, where what was announced hides it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, bench, plan, verdict
from test_run_left_out import ANEW, BY_STEPS_AND_MODEL, GIVE_UP, ONCE, TO, TOOLS, both, each, run, some, to
from test_run_recovery import overall, reflection

from replan.testing import virtual_time

MORE = "tell the boss"
BY_WORD = "by its plan step"
BOSS = to("m", "tell", "Boss")


def _tell(parameters: Any) -> Any:
    if parameters["to"].startswith("Bad"):
        raise ValueError("no such address")
    return "told"


TELLS = {**TOOLS, "tell": FakeTool(output=_tell, parameters=TO, **ONCE)}


def parts(*plans: tuple[list[dict[str, Any]], str], said: Any = None, last: Any = None, **way: Any) -> Ran:
    """Plans, each with what it leaves to be planned: one that fails, then others."""

    async def main() -> Ran:
        made = await bench(
            TELLS,
            {
                "execution_plan": [{**plan(*steps), "more": more} for steps, more in plans],
                "step_reflection": [GIVE_UP] * 9,
                "overall_reflection": [*[ANEW] * (len(plans) - 1), last or overall(False)],
                "evaluation": verdict() if said is None else {**verdict(), "left_out_effects": said},
            },
        )
        return (await made.run(**way)).check()

    return virtual_time(main())


def instead(step: dict[str, Any], *of: str) -> dict[str, Any]:
    return {**step, "instead_of": list(of)}


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("first", "second", "succeeds"),
    [
        pytest.param([to("p", "pay", "Bad")], [instead(to("x", "pay", "Ann"), "p")], True, id="a step by a step"),
        pytest.param([to("p", "pay", "Bad")], [to("x", "pay", "Ann")], False, id="which does not say so"),
        pytest.param([to("p", "pay", "Bad")], [instead(to("p", "pay", "Ann"), "p")], True, id="under its own id"),
        pytest.param([to("p", "pay", "Bad")], [instead(to("x", "tell", "Ann"), "p")], False, id="by another tool"),
        pytest.param([to("p", "pay", "Bad")], [instead(to("x", "look", "Ann"), "p")], False, id="by a reading"),
        pytest.param([to("p", "pay", "Bad"), to("z", "pay", "Zoe")], [instead(to("z", "pay", "Zoe"), "p")], False, id="by a step of before"),
        pytest.param([to("p", "pay", "Bad")], [to("l", "look", "Ann"), instead(to("x", "pay", "Ann", when="l.output.open"), "p")], False,
                     id="by one that is skipped"),
        pytest.param([each("p", "Bad", "Bad2")], [instead(to("x", "pay", "Ann"), "p"), instead(to("y", "pay", "Bob"), "p")], True, id="a list by two"),
        pytest.param([each("p", "Bad", "Bad2")], [instead(to("x", "pay", "Ann"), "p")], False, id="a list by one"),
        pytest.param([each("p", "Bad", "Bob", "Cid")], [instead(each("x", "Ann", "Bob", "Cid"), "p")], True, id="one item of a list that is restated"),
        pytest.param([each("p", "Bad", "Bad2")], [instead(each("x", "Ann", "Bob"), "p")], True, id="a list by a list"),
        pytest.param([to("p", "pay", "Bad"), to("q", "pay", "Bad2")], [instead(each("x", "Ann", "Bob"), "p", "q")], True, id="two steps by a list"),
        pytest.param([to("p", "pay", "Bad"), to("q", "pay", "Bad2")], [instead(to("x", "pay", "Ann"), "p", "q")], False, id="two steps by one"),
        pytest.param([both("p", "Bad", "Bob")], [instead(both("x", "Ann", "Bob"), "p")], True, id="actions"),
        pytest.param([to("p", "pay", "Bad")], [{**to("x", "pay", "Ann"), "replaces": "p"}], True, id="in another spelling"),
    ],
)  # fmt: skip
def test_after_a_plan_with_more_a_step_stands_for_a_failed_one_where_its_plan_says_so(
    first: list[dict[str, Any]], second: list[dict[str, Any]], succeeds: bool, way: dict[str, Any]
) -> None:
    ran = parts((first, MORE), ([*second, BOSS], ""), **way)
    assert ran.result.is_success == succeeds
    if succeeds:
        assert any(BY_WORD in one for one in ran.result.shortfall)
        assert ran.source.counts["tell"] == 1


@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
def test_by_steps_as_many_effects_have_to_say_it_as_were_missed(
    lost: int, made: int, as_list: bool, more: bool
) -> None:
    bad, good = [f"Bad{n}" for n in range(lost)], [f"Ann{n}" for n in range(made)]
    first = [each("p", *bad)] if as_list else [to(f"p{n}", "pay", name) for n, name in enumerate(bad)]
    names = ["p"] if as_list else [f"p{n}" for n in range(lost)]
    then = [instead(to(f"x{n}", "pay", name), *names) for n, name in enumerate(good)]
    last = [([BOSS], "")] if more else []
    ran = parts(
        (first, MORE), (then if more else [*then, BOSS], MORE if more else ""), *last, evaluation="steps"
    )
    assert ran.result.is_success == (made >= lost)


FAILED = ([to("p", "pay", "Bad")], MORE)


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("plans", "succeeds", "told"),
    [
        pytest.param([([instead(to("x", "pay", "Bad2"), "p")], MORE), ([instead(to("y", "pay", "Ann"), "x"), BOSS], "")], True, "x",
                     id="corrected twice"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p")], MORE), ([instead(to("y", "pay", "Ann"), "p"), BOSS], "")], True, "x",
                     id="the first alone: what was tried for it since is meant too"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p")], MORE), ([instead(to("z", "pay", "Bad3"), "x")], MORE),
                      ([instead(to("y", "pay", "Ann"), "p"), BOSS], "")], True, "z", id="the first alone, of three"),
        pytest.param([([instead(to("x", "tell", "Bad"), "p")], MORE), ([instead(to("y", "pay", "Ann"), "p"), BOSS], "")], False, "",
                     id="the first alone, where another tool has failed for it"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p")], MORE), ([instead(to("y", "pay", "Ann"), "p", "x"), BOSS], "")], True, "x",
                     id="both are named"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p"), BOSS], ""), ([to("y", "pay", "Ann")], "")], True, "p",
                     id="the second has taken the place of the first"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p"), BOSS], ""), ([to("y", "look", "Ann")], "")], False, "", id="by a reading"),
        pytest.param([([instead(to("x", "pay", "Bad2"), "p"), BOSS], ""), ([to("l", "look", "Ann"), to("y", "pay", "Ann", when="l.output.open")], "")],
                     False, "", id="by one that is skipped"),
        pytest.param([([to("x", "pay", "Ann"), BOSS], ""), ([instead(to("x", "pay", "Ann"), "p"), BOSS], "")], True, "p", id="it is said later"),
        pytest.param([([to("x", "pay", "Ann"), BOSS], ""), ([to("x", "pay", "Ann"), BOSS], "")], False, "", id="or never"),
        pytest.param([([instead(to("x", "tell", "Bad"), "p")], MORE), ([instead(to("y", "tell", "Ann"), "x"), BOSS], "")], False, "",
                     id="another tool that failed too"),
    ],
)  # fmt: skip
def test_it_holds_over_several_plans(
    plans: list[tuple[list[dict[str, Any]], str]], succeeds: bool, told: str, way: dict[str, Any]
) -> None:
    ran = parts(FAILED, *plans, **way)
    assert ran.result.is_success == succeeds
    assert ran.source.counts["pay"] <= len(plans) + 1
    if succeeds:
        [line] = [one for one in ran.result.shortfall if BY_WORD in one]
        assert line.startswith(f"step {told!r} (pay) of an earlier plan failed")


def _stands(one: str, name: str, at: int, fails: dict[str, list[str]]) -> None:
    """The step of this name, of plan `at`, is in place of one that failed, and of each that was tried in vain for that before."""
    if one in fails and name not in fails[one] and int(one[1]) < at:
        tried = list(fails[one])
        fails[one].append(name)
        for other in tried:
            _stands(other, name, at, fails)


@given(st.data())
@settings(max_examples=30)
def test_whatever_plans_say_no_more_is_made_good_than_was_had(data: st.DataObject) -> None:
    """Each failed step has a later one of its own that says it is in its place: it has had the effect, or lacks it too."""
    plans, before, fails = [], list[str](), dict[str, list[str]]()
    for at in range(last := data.draw(st.integers(1, 3)) + 1):
        bad = (
            [data.draw(st.booleans()) for _ in range(data.draw(st.integers(1, 3)))]
            if at < last - 1
            else [False] * data.draw(st.integers(1, 3))
        )
        bad[0] = bad[0] or at < last - 1
        steps = []
        for n, is_bad in enumerate(bad):
            name = f"s{at}{n}"
            of = data.draw(st.lists(st.sampled_from(before), max_size=2, unique=True)) if before else []
            steps.append(instead(to(name, "pay", ("Bad" if is_bad else "Ann") + name), *of))
            for one in of:
                _stands(one, name, at, fails)
            if is_bad:
                fails[name] = []
        before += [step["step_id"] for step in steps]
        plans.append((steps, MORE if at < last - 1 else ""))
    ran = parts(*plans, evaluation="steps")
    may_be = any(len(set(chosen)) == len(chosen) for chosen in product(*fails.values()))
    assert not ran.result.is_success or may_be
    if all(len(later) == 1 for later in fails.values()):
        assert ran.result.is_success == may_be


@pytest.mark.parametrize(
    ("first", "then", "wrong"),
    [
        pytest.param([to("p", "pay", "Bad")], [instead(to("x", "pay", "Ann"), "q")], "'q', which is no step of an earlier plan (these have failed: p)",
                     id="an unknown step"),
        pytest.param([to("p", "pay", "Bad")], [instead(to("x", "pay", "Ann"), "x")], "'x', which is no step", id="itself"),
        pytest.param([instead(to("p", "pay", "Bad"), "q")], [to("x", "pay", "Ann")], "'q', which is no step of an earlier plan (none has failed)",
                     id="in a first plan"),
    ],
)  # fmt: skip
def test_a_step_that_is_in_place_of_nothing_is_a_violation(first: Any, then: Any, wrong: str) -> None:
    ran = parts((first, MORE), (then, ""), (then, ""), evaluation="steps")
    turns = [one.turns[-1].text for one in ran.model.requests if one.schema_name == "execution_plan"]
    assert any(wrong in text for text in turns)


def test_only_who_plans_anew_is_told_of_the_field() -> None:
    ran = parts(FAILED, ([instead(to("x", "pay", "Ann"), "p"), BOSS], ""))
    first, anew = [one for one in ran.model.requests if one.schema_name == "execution_plan"]
    fields = [one.json_schema["properties"]["steps"]["items"]["properties"] for one in (first, anew)]
    assert ["instead_of" in one for one in fields] == [False, True]
    assert ["instead_of" in one.instructions for one in (first, anew)] == [False, True]


def test_a_judge_may_say_otherwise() -> None:
    plans = (FAILED, ([instead(to("x", "pay", "Ann"), "p"), BOSS], ""))
    shown = parts(*plans, said=[])
    asked = [one.turns[0].text for one in shown.model.requests if one.schema_name == "evaluation"]
    assert "by its plan step 'x' (pay) stands for it" in asked[0]
    assert shown.result.is_success
    assert any(one.endswith("made good by x") for one in shown.result.shortfall)
    assert not parts(*plans, said=[{"step": "p", "made_good_by": None, "not_needed": None}]).result.is_success


def test_what_a_list_does_without_may_be_made_good_by_a_word() -> None:
    looks = to("r", "look", "Bad", "p")
    plans = (([some("p", "Bad", "Bob"), looks], MORE), ([instead(to("x", "pay", "Ann"), "p"), BOSS], ""))
    ran = parts(*plans, evaluation="steps")
    assert ran.result.is_success
    assert any(
        "without item 1, which failed; by its plan step 'x' (pay) stands for it" in one
        for one in ran.result.shortfall
    )


@BY_STEPS_AND_MODEL
def test_without_more_the_word_tells_which_of_several_is_meant(way: dict[str, Any]) -> None:
    first = [to("p", "pay", "Bad"), to("q", "pay", "Bad2")]
    ran = run(first, [instead(to("x", "pay", "Ann"), "q"), instead(to("y", "pay", "Bob"), "p")], **way)
    assert ran.result.is_success
    assert ran.result.shortfall == ()
    replaced = {step.step_id: step.replaced_by for step in ran.result.steps if step.replaced_by}
    assert replaced == {"p": "y", "q": "x"}


def test_by_steps_a_person_whose_words_change_nothing_is_told_the_word_that_does_and_a_plan_may_say_it() -> (
    None
):
    async def main(words: str, reflected: Any) -> Ran:
        made = await bench(
            TOOLS,
            {
                "execution_plan": [
                    {**plan(to("p", "pay", "Bad")), "more": MORE},
                    plan(to("x", "pay", "Ann"), BOSS),
                    plan(instead(to("x", "pay", "Ann"), "p"), BOSS),
                ],
                "step_reflection": [GIVE_UP] * 9,
                "overall_reflection": [ANEW, overall(False), reflected, overall(False)],
            },
        )
        task = await made.submit(interactive=True, evaluation="steps")
        ran = await made.drive(task)
        [question] = ran.result.waiting_for
        assert "The word done alone ends the task as it is" in question.background
        assert "no plan says that step 'x' (pay) stands for it (`instead_of`)" in question.background
        await made.service.answer(task, words, question.id)
        return await made.drive(task)

    words = "the payment to Ann stands for it"
    assert virtual_time(main(words, overall(False))).result.status == "waiting"
    assert virtual_time(main("done", overall(False))).result.is_success
    ran = virtual_time(main(words, ANEW))
    assert ran.result.is_success
    assert any(BY_WORD in one for one in ran.result.shortfall)
    assert (ran.source.counts["pay"], ran.source.counts["tell"]) == (2, 1)


@BY_STEPS_AND_MODEL
def test_a_step_that_is_written_anew_is_in_place_of_the_same(way: dict[str, Any]) -> None:
    async def main() -> Ran:
        anew = reflection("repair_step", {"hint": "another account"}, "parameter_error")
        made = await bench(
            TELLS,
            {
                "execution_plan": [
                    {**plan(to("p", "pay", "Bad")), "more": MORE},
                    plan(instead(to("x", "pay", "Bad2"), "p"), BOSS),
                ],
                "step_reflection": [GIVE_UP, anew],
                "step_repair": {"step_id": "x", "tool": "pay", "parameters": {"to": "Ann"}},
                "overall_reflection": [ANEW, overall(False)],
                "evaluation": verdict(),
            },
        )
        return (await made.run(**way)).check()

    ran = virtual_time(main())
    assert ran.source.counts["pay"] == 3
    assert ran.result.is_success
    assert any(BY_WORD in one for one in ran.result.shortfall)
