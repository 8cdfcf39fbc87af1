"""A success is one: what the judge, the reflector, the steps and the schema say, in whole tasks."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "it cannot be mended here"}, "tool_error")
TOOLS: dict[str, Any] = {
    "find": FakeTool(output={"id": 7}, **READS),
    "look": FakeTool(fail=["nothing there"] * 30, **READS),
    "pay": FakeTool(fail=["the account is closed"] * 30, **ONCE),
    "pay_by_card": FakeTool(output="paid", **ONCE),
}


def run(answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await bench(TOOLS, {"evaluation": verdict(), **answers})).run(**more)).check()

    return virtual_time(main())


def replan(strategy: str, **fields: Any) -> dict[str, Any]:
    return overall(True, replanning_strategy={"type": strategy, "reason": "it helps", **fields})


def judgement(score: float, success: bool, complete: float, correct: float, *failures: str) -> dict[str, Any]:
    made = verdict(score, "an answer", success=success, correctness=correct)
    made["dimensions"]["completeness"] = complete
    return {**made, "failures": list(failures)}


@pytest.mark.parametrize(
    ("judged", "reflected", "succeeds"),
    [
        pytest.param(judgement(60, False, 90, 70, "the amount is wrong"),
                     overall(False, "external", ask="ask Bob"), False, id="two noes"),
        pytest.param(judgement(60, False, 90, 90, "the amount is wrong"),
                     overall(False, done_in_substance=True), False, id="a wrong result is not done in substance"),
        pytest.param({**judgement(60, False, 90, 90, "no title"), "wrong_results": ["3 for 5"]},
                     overall(False, done_in_substance=True), False, id="told as wrong"),
        pytest.param(judgement(60, False, 90, 90, "no title"),
                     overall(False, done_in_substance=True), True, id="done in substance"),
        pytest.param(judgement(60, False, 90, 90, "no title"), overall(False), False, id="which the reflector says"),
        pytest.param(judgement(85, False, 90, 90), overall(False), False, id="a no with a good score"),
        pytest.param(judgement(85, False, 90, 90), overall(False, done_in_substance=True), False,
                     id="which stays no success"),
        pytest.param(judgement(60, True, 90, 90), overall(False), False, id="a yes with a poor score"),
        pytest.param(judgement(60, True, 85, 96), overall(False), True, id="but for an answer that is all right"),
    ],
)  # fmt: skip
def test_no_end_is_better_than_what_judge_and_reflector_allow(
    judged: dict[str, Any], reflected: dict[str, Any], succeeds: bool
) -> None:
    ran = run(
        {"execution_plan": plan(step("a", "find")), "evaluation": judged, "overall_reflection": reflected}
    )
    assert ran.result.is_success == succeeds
    if not succeeds and reflected.get("ask"):
        assert ran.result.failure is not None
        assert ran.result.failure.question == "ask Bob"


def test_what_a_judge_tells_as_failures_beside_a_yes_is_in_the_shortfall_and_asked_about_where_nothing_failed() -> (
    None
):
    blemish = judgement(95, True, 95, 95, "nothing was said of the date")
    well = run({"execution_plan": plan(step("a", "pay_by_card")), "evaluation": blemish})
    assert well.result.is_success
    assert well.result.shortfall == ("nothing was said of the date",)
    assert [one.schema_name for one in well.model.requests].count("evaluation") == 2
    known = run(
        {
            "execution_plan": [plan(step("a", "look")), plan(step("b", "find"))],
            "step_reflection": [GIVE_UP] * 3,
            "overall_reflection": [replan("full_replan")],
            "evaluation": judgement(95, True, 95, 95, "the first reading failed"),
        }
    )
    assert known.result.shortfall == ("the first reading failed",)
    assert [one.schema_name for one in known.model.requests].count("evaluation") == 1


def test_a_judge_that_says_no_with_a_good_score_is_asked_once_more() -> None:
    ran = run(
        {
            "execution_plan": plan(step("a", "find")),
            "evaluation": [judgement(85, False, 90, 90), judgement(30, False, 30, 90)],
            "overall_reflection": overall(False, "external"),
        }
    )
    assert not ran.result.is_success
    assert ran.result.score == 30
    assert "from 80 on a score says that the task is done" in ran.model.requests[-2].turns[-1].text


@pytest.mark.parametrize(
    ("score", "flag", "says"),
    [
        (92, True, "below 94 a score says that the task is not done"),
        (96, False, "from 94 on a score says that the task is done"),
    ],
)
def test_a_judge_knows_the_threshold_and_is_not_pushed_to_either_side(
    score: int, flag: bool, says: str
) -> None:
    ran = run(
        {
            "execution_plan": plan(step("a", "find")),
            "evaluation": judgement(score, flag, 90, 90),
            "overall_reflection": overall(False, "external"),
        },
        success_threshold=94,
    )
    asked = [one for one in ran.model.requests if one.schema_name == "evaluation"]
    assert "An `overall_score` of 94 or more says that the task is done" in asked[0].turns[0].text
    assert says in asked[1].turns[-1].text
    assert "say which of the two holds" in asked[1].turns[-1].text
    reason = ran.result.failure.reason  # type: ignore[union-attr]
    assert "contradict each other: 94 and more counts as success" in reason


@pytest.mark.parametrize(
    ("said_then", "succeeds"),
    [
        pytest.param(judgement(95, True, 95, 96), True, id="nothing is wrong"),
        pytest.param({**judgement(95, True, 95, 96), "wrong_results": ["3 for 5"]}, False, id="still both"),
        pytest.param(judgement(30, False, 30, 30, "3 for 5"), False, id="it is no success"),
    ],
)
def test_a_yes_that_names_a_wrong_result_is_asked_once_more(
    said_then: dict[str, Any], succeeds: bool
) -> None:
    both = {**judgement(95, True, 95, 96), "wrong_results": ["3 apples for 5"]}
    ran = run(
        {
            "execution_plan": plan(step("a", "find")),
            "evaluation": [both, said_then],
            "overall_reflection": overall(False),
        }
    )
    assert ran.result.is_success == succeeds
    if not succeeds:
        assert "a step had failed" not in ran.result.reason, "none had"
        assert "3 for 5" in ran.result.reason or ran.result.score == 30
    asked = [one for one in ran.model.requests if one.schema_name == "evaluation"]
    assert len(asked) == 2
    assert "3 apples for 5" in asked[1].turns[-1].text


@pytest.mark.parametrize("reflected", [overall(False), overall(False, done_in_substance=True)])
@pytest.mark.parametrize("answer", ["seven", None, 7])
@pytest.mark.parametrize("success", [True, False])
def test_no_success_has_an_answer_of_another_form_than_was_asked_for(
    reflected: dict[str, Any], answer: Any, success: bool
) -> None:
    judged = {**judgement(90 if success else 60, success, 90, 90, "no title"), "final_output": answer}
    ran = run(
        {"execution_plan": plan(step("a", "find")), "evaluation": judged, "overall_reflection": reflected},
        output_schema={"type": "integer"},
    )
    fits = answer == 7
    assert ran.result.is_success == (fits and (success or bool(reflected.get("done_in_substance"))))
    assert not ran.result.is_success or ran.result.output == 7


SKIP_P = replan("skip_steps", step_ids=["p"])
ANEW = replan("full_replan")


def accounts(*said: dict[str, Any]) -> dict[str, Any]:
    """A judge's plain yes, with what it says of the effects that were left out."""
    return {**judgement(95, True, 95, 96), "left_out_effects": list(said)}


def by(step_id: str, effect: str = "p") -> dict[str, Any]:
    return {"step": effect, "made_good_by": step_id, "not_needed": None}


NOT_NEEDED = {"step": "p", "made_good_by": None, "not_needed": "the invoice had been paid before"}


@pytest.mark.parametrize(
    ("rest", "strategy", "judged", "shortfall"),
    [
        pytest.param([step("x", "find", parameters={"n": 1})], ANEW, accounts(), None, id="not a word"),
        pytest.param([step("x", "find", parameters={"n": 1})], ANEW, judgement(95, True, 95, 96), None, id="not even the field"),
        pytest.param(None, SKIP_P, accounts(), "not needed: it helps", id="skipped by name, with a reason"),
        pytest.param(None, SKIP_P, accounts({**NOT_NEEDED, "not_needed": None}), None, id="which the judge does not share"),
        pytest.param(None, SKIP_P, accounts(NOT_NEEDED), "not needed: the invoice", id="not needed"),
        pytest.param(None, SKIP_P, accounts({**NOT_NEEDED, "not_needed": "null"}), None, id="no reason"),
        pytest.param(None, SKIP_P, accounts(by("f")), None, id="a reading of the same plan"),
        pytest.param([step("x", "find", parameters={"n": 1})], ANEW, accounts(by("x")), None, id="a reading of a later plan"),
        pytest.param([step("x", "find", parameters={"n": 1})], ANEW, accounts({**NOT_NEEDED, **by("x"), "not_needed": "as x says"}),
                     None, id="a reading, whatever is said of it"),
        pytest.param([step("x", "pay_by_card")], ANEW, accounts(), None, id="another tool instead, unsaid"),
        pytest.param([step("x", "pay_by_card")], ANEW, accounts({**NOT_NEEDED, "not_needed": None}), None,
                     id="another tool, which the judge does not take for it"),
        pytest.param([step("x", "pay_by_card")], ANEW, accounts(by("x")), "made good by x", id="another tool instead"),
        pytest.param([step("x", "pay_by_card")], ANEW, accounts(by("y")), None, id="a step that is not there"),
    ],
)  # fmt: skip
def test_a_yes_has_to_account_for_each_effect_that_was_left_out(
    rest: list[dict[str, Any]] | None, strategy: dict[str, Any], judged: dict[str, Any], shortfall: str | None
) -> None:
    first = plan(step("f", "find"), step("p", "pay"))
    ran = run(
        {
            "execution_plan": [first] if rest is None else [first, plan(*rest)],
            "step_reflection": GIVE_UP,
            "overall_reflection": [strategy, overall(False)],
            "evaluation": judged,
        }
    )
    asked = [one for one in ran.model.requests if one.schema_name == "evaluation"]
    assert "'p' (pay) of an earlier plan failed" in asked[0].turns[0].text
    assert ran.result.is_success == (shortfall is not None)
    if shortfall is not None:
        assert len(asked) == 1
        assert [shortfall in text for text in ran.result.shortfall] == [True]
    else:
        assert len(asked) == 2, "what contradicts itself goes back once"
        assert "left_out_effects" in asked[1].turns[-1].text
        assert any("a later plan left it out" in cause for cause in ran.result.failure.root_causes)  # type: ignore[union-attr]


def test_a_judge_that_accounts_for_it_when_it_is_asked_again_is_believed() -> None:
    ran = run(
        {
            "execution_plan": [plan(step("f", "find"), step("p", "pay")), plan(step("x", "pay_by_card"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": ANEW,
            "evaluation": [accounts(by("f")), accounts(by("x"))],
        }
    )
    assert ran.result.is_success
    assert ran.result.total_rounds == 2


@pytest.mark.parametrize(
    ("first", "rest", "said", "succeeds"),
    [
        pytest.param([step("a", "pay_by_card"), step("p", "pay")], None, [by("a")], False,
                     id="an effect that was planned beside it"),
        pytest.param([step("a", "pay_by_card"), step("p", "pay")], [step("a", "pay_by_card")], [], False,
                     id="the same, unsaid"),
        pytest.param([step("p", "pay"), step("q", "pay", parameters={"n": 2})], [step("x", "pay_by_card")],
                     [], False, id="one effect for two, unsaid"),
        pytest.param([step("p", "pay"), step("q", "pay", parameters={"n": 2})], [step("x", "pay_by_card")],
                     [by("x"), by("x", "q")], False, id="one effect for two"),
        pytest.param([step("p", "pay"), step("q", "pay", parameters={"n": 2})],
                     [step("x", "pay_by_card"), step("y", "pay_by_card", parameters={"n": 2})],
                     [by("x"), by("y", "q")], True, id="each its own"),
        pytest.param([step("l", "look"), step("p", "pay_by_card", "l")], [step("x", "find", parameters={"n": 1})], [], False,
                     id="one that was never tried"),
        pytest.param([step("l", "look"), step("p", "pay_by_card", "l")], [step("x", "pay_by_card")], [], True,
                     id="which a step of the new plan has had"),
    ],
)  # fmt: skip
def test_what_makes_an_effect_good_is_an_effect_of_its_own(
    first: list[Any], rest: list[Any] | None, said: list[dict[str, Any]], succeeds: bool
) -> None:
    ran = run(
        {
            "execution_plan": [plan(*first)] if rest is None else [plan(*first), plan(*rest)],
            "step_reflection": GIVE_UP,
            "overall_reflection": [ANEW if rest is not None else SKIP_P, overall(False)],
            "evaluation": accounts(*said),
        }
    )
    assert ran.result.is_success == succeeds


def test_a_reading_that_stands_in_for_an_effect_is_told_to_the_judge_and_makes_no_success() -> None:
    to_reading = reflection("retry_with_tool", {"tool_id": "find"}, "tool_error")
    again = reflection("repair_step", "another way", "tool_error")
    ran = run(
        {
            "execution_plan": plan(step("p", "pay")),
            "step_reflection": [to_reading, again],
            "step_repair": step("p", "find", parameters={"n": 9}),
            "overall_reflection": overall(False, done_in_substance=True),
            "evaluation": judgement(95, True, 95, 96),
        }
    )
    asked = [one for one in ran.model.requests if one.schema_name == "evaluation"]
    assert not ran.result.is_success
    assert "was to have an effect" in asked[0].turns[0].text


def test_a_task_that_left_nothing_out_is_judged_without_a_word_on_it() -> None:
    ran = run({"execution_plan": plan(step("f", "find"))})
    asked = [one for one in ran.model.requests if one.schema_name == "evaluation"]
    assert "left_out_effects" not in str(asked[0].json_schema)
    assert "left_out_effects" not in asked[0].instructions + asked[0].turns[0].text


# ── judged by the steps ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "rest", "strategy", "succeeds"),
    [
        pytest.param(("f", "p"), [], replan("replan_from_step", step_id="p"), False, id="nothing in its place"),
        pytest.param(("f", "p"), None, replan("skip_steps", step_ids=["p"]), False, id="skipped"),
        pytest.param(("f", "p"), [step("x", "find", parameters={"n": 1})], replan("full_replan"), False, id="another plan without it"),
        pytest.param(("f", "l"), None, replan("skip_steps", step_ids=["l"]), True, id="a reading is a shortfall"),
    ],
)  # fmt: skip
def test_by_steps_what_a_later_plan_merely_leaves_out_is_not_done(
    first: tuple[str, ...], rest: list[dict[str, Any]] | None, strategy: dict[str, Any], succeeds: bool
) -> None:
    steps = {"f": step("f", "find"), "p": step("p", "pay"), "l": step("l", "look")}
    plans = [plan(*(steps[name] for name in first))]
    ran = run(
        {
            "execution_plan": plans if rest is None else [*plans, plan(*rest)],
            "step_reflection": GIVE_UP,
            "overall_reflection": [strategy, overall(False)],
        },
        evaluation="steps",
    )
    assert ran.result.is_success == succeeds
    told = ran.result.shortfall if succeeds else ran.result.failure.root_causes  # type: ignore[union-attr]
    assert any("left it out" in text for text in told)
    assert succeeds or ran.result.score < 80  # type: ignore[operator]


def test_by_steps_a_step_that_succeeds_in_the_place_of_another_makes_up_for_it() -> None:
    def book(parameters: Any) -> Any:
        if not parameters.get("room"):
            raise ValueError("which room?")
        return "booked"

    async def main() -> Ran:
        tools = {**TOOLS, "book": FakeTool(output=book, **ONCE)}
        answers = {
            "execution_plan": [
                plan(step("f", "find"), step("b", "book")),
                plan(step("c", "book", parameters={"room": 7})),
            ],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("replan_from_step", step_id="b"),
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.shortfall == ()
    assert ran.result.score == 100


def pays_even(parameters: Any) -> Any:
    if parameters["n"] % 2:
        raise ValueError("insufficient funds")
    return {"paid": parameters["n"]}


def repaired(**more: Any) -> dict[str, Any]:
    changed = {"step_repair": step("p", "pay_even", **more)}
    return {"step_reflection": reflection("repair_step", "another way", "tool_error"), **changed}


EACH = {"for_each": [1, 2], "parameters": {"n": "${item}"}}


@pytest.mark.parametrize(
    ("paid", "answers", "succeeds"),
    [
        pytest.param(
            {"parameters": {"n": 1}},
            {"step_reflection": reflection("retry_with_tool", {"tool_id": "find"}, "tool_error")},
            False,
            id="a reading stands in",
        ),
        pytest.param(
            {"parameters": {"n": 1}},
            {"step_reflection": reflection("retry_with_tool", {"tool_id": "pay_by_card"}, "tool_error")},
            True,
            id="another effect stands in",
        ),
        pytest.param(
            {"parameters": {"n": 1}},
            {**repaired(), "step_repair": step("p", "find", parameters={"n": 9})},
            False,
            id="written anew as a reading",
        ),
        pytest.param({"parameters": {"n": 1}}, repaired(parameters={"n": 2}), True, id="written anew"),
        pytest.param({"parameters": {"n": 1}}, repaired(**{**EACH, "for_each": []}), False, id="a list of nothing"),
        pytest.param({"parameters": {"n": 1}}, repaired(parameters={"n": 2}, when="`false`"), False, id="never"),
        pytest.param(EACH, repaired(**EACH, allow_failed_items=True), False, id="without it, as an afterthought"),
        pytest.param({**EACH, "for_each": [1, 3]}, repaired(**{**EACH, "for_each": [2]}), False, id="fewer items"),
        pytest.param({**EACH, "for_each": [1, 3]}, repaired(**{**EACH, "for_each": [2, 4]}), True, id="other items"),
        pytest.param({**EACH, "allow_failed_items": True}, {"step_reflection": GIVE_UP}, True, id="without it, as planned"),
    ],
)  # fmt: skip
def test_by_steps_an_effect_is_made_up_for_by_an_effect_only(
    paid: dict[str, Any], answers: dict[str, Any], succeeds: bool
) -> None:
    async def main() -> Ran:
        number = {"type": "object", "properties": {"n": {"type": "integer"}}}
        tools = {**TOOLS, "pay_even": FakeTool(output=pays_even, parameters=number, **ONCE)}
        wanted = plan(step("f", "find"), step("p", "pay_even", **paid))
        script = {"execution_plan": wanted, "overall_reflection": overall(False), **answers}
        return (await (await bench(tools, script)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert ran.result.is_success == succeeds
    if not succeeds:
        causes = ran.result.failure.root_causes if ran.result.failure is not None else ()
        changed = answers.get("step_repair", {})
        if changed.get("for_each") == [] or "when" in changed:  # a step of nothing is not taken to begin with
            told = str([record.event for record in ran.records])
            assert "so nothing would be done" in told or "so it is always the same" in told
            assert ran.events("step_repaired") == []
        else:
            assert any("was to have an effect" in text for text in causes)
    elif "allow_failed_items" in paid:
        assert ran.result.shortfall == ("step 'p' (pay_even) is without item 1, which failed",)
        assert ran.result.score == 100


@pytest.mark.parametrize("evaluation", ["steps", "model"])
@pytest.mark.parametrize(
    ("instead", "succeeds"),
    [
        pytest.param({"parameters": {"n": 2}}, True, id="another effect"),
        pytest.param({"parameters": {"n": "${item}"}, "for_each": []}, False, id="a list of nothing"),
        pytest.param({"parameters": {"n": 2}, "when": "`false`"}, False, id="a condition that never holds"),
    ],
)
def test_the_effect_of_what_came_after_makes_up_for_none(
    instead: dict[str, Any], succeeds: bool, evaluation: str
) -> None:
    """`q` pays after `p` in both plans: that it pays in the second stands for itself alone."""

    async def main() -> Ran:
        number = {"type": "object", "properties": {"n": {"type": "integer"}}}
        tools = {"pay_even": FakeTool(output=pays_even, parameters=number, **ONCE)}
        first = plan(
            step("p", "pay_even", parameters={"n": 1}), step("q", "pay_even", "p", parameters={"n": 4})
        )
        second = plan(step("p2", "pay_even", **instead), step("q2", "pay_even", "p2", parameters={"n": 4}))
        script = {
            **TO_TWO_BY_PLAN, "execution_plan": [first, second, second, second], "evaluation": verdict(),
        }  # fmt: skip
        return (await (await bench(tools, script)).run(evaluation=evaluation)).check()

    ran = virtual_time(main())
    assert ran.result.is_success == succeeds


def test_an_effect_that_never_ran_for_what_failed_before_it_is_no_success_of_a_plain_yes() -> None:
    async def main() -> Ran:
        wanted = plan(step("l", "look"), step("p", "pay_by_card", parameters={"n": "${l.output}"}))
        made = await bench(TOOLS, {"execution_plan": wanted, "evaluation": verdict()})
        return (await made.run(enable_step_level_reflection=False, enable_auto_reflection=False)).check()

    ran = virtual_time(main())
    assert not ran.result.is_success
    assert "'p' could not run" in ran.result.reason


TO_TWO = reflection("retry_with_params", {"n": 2})
TO_TWO_BY_PLAN = {
    "step_reflection": GIVE_UP,
    "overall_reflection": replan("full_replan"),
}


@pytest.mark.parametrize(
    ("steps", "answers", "succeeds"),
    [
        pytest.param(
            [step("a", "pay_even", parameters={"n": 2}), step("b", "pay_even", "a", parameters={"n": 1})],
            {"step_reflection": TO_TWO},
            False,
            id="other parameters",
        ),
        pytest.param(
            [step("p", "pay_even", for_each=[2, 1], parameters={"n": "${item}"})],
            {"step_reflection": TO_TWO},
            False,
            id="an item of a list",
        ),
        pytest.param(
            [step("p", "pay_even", for_each=[1, 3], parameters={"n": "${item}"})],
            {"step_reflection": TO_TWO},
            False,
            id="two items that fail, mended into one",
        ),
        pytest.param(
            [step("a", "pay_even", parameters={"n": 2}), step("b", "pay_even", "a", parameters={"n": 1})],
            {**TO_TWO_BY_PLAN, "later": [step("c", "pay_even", parameters={"n": 2})]},
            False,
            id="a new plan that only states the other one",
        ),
        pytest.param(
            [step("a", "pay_even", parameters={"n": 2}), step("b", "pay_even", "a", parameters={"n": 1})],
            {
                **TO_TWO_BY_PLAN,
                "later": [step("c", "pay_even", parameters={"n": 2}), step("d", "pay_even", parameters={"n": 4})],
            },
            True,
            id="a new plan that makes up for it as well",
        ),
        pytest.param(
            [step("a", "pay_even", parameters={"n": 2}), step("b", "pay_even", "a", parameters={"n": 1})],
            {"step_reflection": reflection("retry_with_params", {"n": 4})},
            True,
            id="an effect of its own",
        ),
    ],
)  # fmt: skip
def test_by_steps_the_effect_of_another_place_makes_up_for_none(
    steps: list[Any], answers: dict[str, Any], succeeds: bool
) -> None:
    async def main() -> Ran:
        number = {"type": "object", "properties": {"n": {"type": "integer"}}}
        tools = {"pay_even": FakeTool(output=pays_even, parameters=number, **ONCE)}
        wanted = plan(*steps)
        plans = [wanted, *[plan(*answers["later"])] * 3] if "later" in answers else wanted
        script = {"overall_reflection": overall(False), **answers, "execution_plan": plans}
        script.pop("later", None)
        return (await (await bench(tools, script)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert ran.result.is_success == succeeds
    paid = [call.parameters["n"] for call in ran.source.calls if not call.parameters["n"] % 2]
    assert paid == ([2, 4] if succeeds else [2])


def test_another_tool_does_not_pass_for_a_helped_step_under_its_id() -> None:
    ran = run(
        {
            "execution_plan": [
                plan(step("f", "find"), step("p", "pay")),
                plan(step("x", "find", parameters={"n": 1}), step("p", "pay_by_card")),
                plan(step("x", "find", parameters={"n": 1}), step("y", "pay_by_card")),
            ],
            "step_reflection": GIVE_UP,
            "overall_reflection": [
                replan("add_remediation_steps", step_id="p", suggestions=["look"]),
                overall(False),
            ],
        },
        evaluation="steps",
    )
    assert "with its own tool, pay" in ran.events("plan_rejected")[0].violations[0]
    assert not ran.result.is_success


# ── what an ended task leaves ─────────────────────────────────────────────────


def test_no_step_of_an_ended_task_is_pending() -> None:
    wanted = plan(
        step("p", "pay"),
        step("q", "find", "p"),
        *(step(f"i{n}", "find", parameters={"n": n}) for n in range(4)),
    )
    ran = run(
        {
            "execution_plan": wanted,
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(False, "external", ask="open the account"),
        },
        parallel_max_concurrent=1,
    )
    assert not ran.result.is_success
    assert set(ran.statuses().values()) <= {"succeeded", "failed", "skipped"}
    closed = [one for one in ran.events("step_skipped") if one.kind == "ended"]
    assert closed
    assert all(one.reason == "the task ended before it was started" for one in closed)
    assert {one.status for one in ran.result.steps} <= {"succeeded", "failed", "skipped"}


def test_a_cancelled_task_leaves_no_step_pending_either() -> None:
    async def main() -> Ran:
        made = await bench(TOOLS, {"execution_plan": plan(step("a", "find"), step("b", "find", "a"))})
        task_id = await made.submit()
        await made.service.cancel(task_id, "enough")
        return (await made.ran(task_id)).check()

    assert "pending" not in virtual_time(main()).statuses().values()


def test_steps_that_a_new_plan_leaves_out_before_they_ran_are_closed_with_the_reason() -> None:
    ran = run(
        {
            "execution_plan": [
                plan(step("p", "pay"), step("i", "find", "p"), step("j", "find", "i")),
                plan(step("c", "pay_by_card")),
            ],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("full_replan"),
            "evaluation": accounts(by("c")),
        }
    )
    assert ran.result.is_success
    assert ran.state.recovery is not None
    assert all(one.closed for one in ran.state.recovery.dropped.values())


REACHED = "id 7 was found; it was not paid for, as the account is closed"


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        pytest.param(None, REACHED, id="no form is asked for"),
        pytest.param({"type": "string"}, REACHED, id="a text is asked for"),
        pytest.param({"type": "object"}, None, id="it has not the form asked for"),
    ],
)
def test_a_task_that_fails_unjudged_keeps_what_was_reached_of_its_answer(
    schema: Any, kept: str | None
) -> None:
    ran = run(
        {
            "execution_plan": plan(step("f", "find"), step("p", "pay", "f")),
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(False, "external", ask="open the account", final_output=REACHED),
        },
        output_schema=schema,
    )
    assert "evaluation" not in ran.model.calls
    assert (ran.result.is_success, ran.result.status, ran.result.final_output) == (False, "failed", kept)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
