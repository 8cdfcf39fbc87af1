"""A question or a no is heard in whatever field it stands, and none is heard where it is said that there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.testing import virtual_time

PAY = plan(step("p", "pay", parameters={"to": "bob"}))


def planned(*answers: Any, **scripted: Any) -> Ran:
    """What became of a task that is planned so."""

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output="paid", effect="once"),
            "mail": FakeTool(output="sent", effect="once"),
            "look": FakeTool(output="seen", effect="reads"),
        }
        said: dict[str, Any] = {
            "execution_plan": [json.dumps(one) for one in (*answers, *answers[-1:] * 5)],
            "evaluation": verdict(),
            "overall_reflection": {"problem_nature": "external", "should_replan": False},
        }
        return await (await bench(tools, {**said, **scripted})).run(text="pay bob", interactive=True)

    return virtual_time(main())


def outcome(ran: Ran) -> tuple[str, int, int]:
    """Its status, how often it was planned, and what was paid."""
    return ran.result.status, ran.model.calls["execution_plan"], ran.source.counts["pay"]


NONE_OF_IT = [
    *("none", "no", "not needed", "Not required.", "none needed", "nein", "nicht nötig", "keine Rückfragen"),
    *("不需要", "没有问题", "否", "No questions.", "No clarification needed.", "Keine Fragen."),
    *(
        "pas besoin",
        "Pas nécessaire.",
        "aucune question",
        "no es necesario",
        "non necessario",
        "Nein, nicht nötig.",
    ),
    *("There are no open questions.", 0, False, ["No question is needed."]),
]


@pytest.mark.parametrize("field", ["ask_first", "cannot", "error", "objection", "question", "problem"])
def test_a_plan_is_run_at_once_beside_words_that_there_is_no_question_and_no_objection(field: str) -> None:
    for words in NONE_OF_IT:
        assert outcome(planned({**PAY, field: words})) == ("succeeded", 1, 1), words


@pytest.mark.parametrize(
    "words",
    [
        "Pas sûr: quel Bob ?",
        "no es necesario antes de que Ann lo diga",
        "No question is more urgent: which Bob?",
        "not needed before Ann agrees",
        "Keine Frage: Ann fragen.",
    ],
)
def test_words_that_begin_like_those_and_say_more_are_heard(words: str) -> None:
    assert outcome(planned({**PAY, "ask_first": words})) == ("waiting", 2, 0)


# ── diagnoses, reflections and judgements ─────────────────────────────────────

QUESTION = "Which of the two Bobs is meant?"
REPLAN = {"root_cause_category": "unknown", "root_cause": "two Bobs", "is_recoverable": True}
AT_ONCE = {**REPLAN, "suggested_action": {"type": "replan", "data": {"advice": "pay again"}}}
HANDED_ON = {**REPLAN, "suggested_action": {"type": "trigger_overall_reflection", "data": {}}}
NO_OTHER = {"problem_nature": "parameters", "should_replan": False, "reflection_text": "not clear"}


def diagnosed(diagnosis: Any, overall: Any = NO_OTHER) -> Ran:
    """What became of a task whose only payment fails, and is diagnosed so."""

    async def main() -> Ran:
        tools = {"pay": FakeTool(output="paid", effect="once", fail=["there is no such Bob"])}
        made = await bench(
            tools,
            {
                "execution_plan": plan(step("q", "pay", parameters={"to": "Bob"})),
                "step_reflection": diagnosis,
                "evaluation": verdict(),
                "overall_reflection": overall,
            },
        )
        return await made.run(PAY, evaluation="model", interactive=True)

    return virtual_time(main())


def asked_of_the_reflector(ran: Ran) -> str:
    return next(one.turns[0].text for one in ran.model.requests if one.schema_name == "overall_reflection")


def waits_for(ran: Ran) -> tuple[str, str]:
    (open_question,) = ran.events("question_asked")
    return open_question.text, open_question.background


@pytest.mark.parametrize(
    "beside",
    [
        {"ask_first": QUESTION},
        {"clarification_needed": QUESTION},
        {"user_question": [QUESTION]},
        {"suggested_action": {**AT_ONCE["suggested_action"], "question": QUESTION}},  # type: ignore[dict-item]
        {"suggested_action": {"type": "replan", "data": {"advice": "pay again", "ask_first": QUESTION}}},
    ],
    ids=str,
)
def test_another_plan_beside_a_question_goes_back_and_is_then_put_to_a_person(beside: Any) -> None:
    ran = diagnosed({**AT_ONCE, **beside})
    assert (ran.result.status, ran.model.calls["step_reflection"]) == ("waiting", 2)
    assert len(ran.source.effects) == 0
    assert QUESTION in asked_of_the_reflector(ran)
    text, background = waits_for(ran)
    assert QUESTION in text + background


@pytest.mark.parametrize(
    "beside",
    [
        {"cannot": "this is a fraud"},
        {"requires_approval": True},
        {"status": "rejected"},
        {"decision": "do not retry"},
        {"approval_status": "pending"},
        {"should_replan": False},
        {"suggested_action": {"type": "replan", "when": "Ann agrees"}},
    ],
    ids=str,
)
def test_nor_is_another_plan_made_beside_a_no(beside: Any) -> None:
    ran = diagnosed({**AT_ONCE, **beside})
    assert (ran.result.status, ran.model.calls["step_reflection"]) == ("waiting", 2)
    assert len(ran.source.effects) == 0


@pytest.mark.parametrize(
    "beside",
    [
        {},
        {"is_recoverable": False, "confidence": 0, "should_retry": False},
        {"error": "there is no such Bob", "status": "failed"},
        {"ask_first": "not needed", "requires_approval": False, "approval_status": "approved"},
    ],
    ids=str,
)
def test_another_plan_costs_no_further_request_beside_what_tells_of_the_failure(beside: Any) -> None:
    ran = diagnosed({**AT_ONCE, **beside}).check()
    assert (ran.result.status, ran.model.calls["step_reflection"]) == ("succeeded", 1)


@pytest.mark.parametrize(
    "diagnosis",
    [
        {**HANDED_ON, "question": QUESTION},
        {**REPLAN, "suggested_action": {"type": "ask_user", "question": QUESTION}},
        {**HANDED_ON, "root_cause": QUESTION},
        {**HANDED_ON, "alternative_solutions": [QUESTION]},
    ],
    ids=str,
)
def test_what_a_diagnosis_asks_reaches_the_overall_reflection_and_the_person(diagnosis: Any) -> None:
    ran = diagnosed(diagnosis)
    assert ran.model.calls["step_reflection"] == 1
    assert QUESTION in asked_of_the_reflector(ran)
    assert QUESTION in "".join(waits_for(ran))


@pytest.mark.parametrize(
    "beside",
    [
        {"ask_first": QUESTION},
        {"questions": [QUESTION]},
        {"user_question": QUESTION},
        {"message": QUESTION},
        {"ask": True, "question": QUESTION},
        {"ask": {"question": QUESTION}},
        {"ask": json.dumps({"question": QUESTION})},
        {"replanning_strategy": {"type": "ask_user", "question": QUESTION}},
        {"replanning_strategy": {"type": "ask_user", "data": {"question": QUESTION}}},
    ],
    ids=str,
)
def test_a_reflection_that_makes_no_other_round_asks_in_whatever_field_it_asks(beside: Any) -> None:
    ran = diagnosed(HANDED_ON, {**NO_OTHER, **beside})
    assert ran.model.calls["overall_reflection"] == 1
    assert waits_for(ran)[0] == QUESTION


def test_that_something_is_to_be_asked_is_no_question_by_itself() -> None:
    assert waits_for(diagnosed(HANDED_ON, {**NO_OTHER, "ask": True}))[0] == "How is the task to go on?"


@pytest.mark.parametrize(
    "field", ["ask_first", "question", "reasoning", "comments", "cannot", "final_output"]
)
def test_all_that_a_judge_says_with_its_no_reaches_the_reflector_and_the_person(field: str) -> None:
    ran = planned(PAY, evaluation={**verdict(10), field: QUESTION}, overall_reflection=NO_OTHER)
    assert QUESTION in asked_of_the_reflector(ran)
    assert QUESTION in "".join(waits_for(ran))


# ── what is left out ──────────────────────────────────────────────────────────


def without_the_payment(**strategy: Any) -> Ran:
    """What became of a payment that fails, and a mail that was to follow it, after this change of the plan."""

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output="paid", effect="once", fail=["no such Bob"] * 9),
            "look": FakeTool(output="seen", effect="reads"),
            "mail": FakeTool(output="sent", effect="once"),
        }
        given = plan(
            step("p", "pay"),
            step("l", "look", "p"),
            step("m", "mail", "l", parameters={"text": "You are paid."}),
        )
        again = {"problem_nature": "decomposition", "should_replan": True, "reflection_text": "Bob has left."}
        made = await bench(
            tools,
            {
                "step_reflection": HANDED_ON,
                "evaluation": verdict(),
                "overall_reflection": [{**again, "replanning_strategy": strategy}] * 2 + [NO_OTHER] * 3,
                "execution_plan": {"steps": [], "cannot": "no Bob"},
            },
        )
        return (await made.run(given, evaluation="model")).check()

    return virtual_time(main())


@pytest.mark.parametrize("reason", ["", "no", "It is still needed, but fails.", "not possible"])
def test_an_effect_does_not_follow_one_that_was_skipped_without_a_reason_why_it_is_not_needed(
    reason: str,
) -> None:
    adjusted = {"type": "adjust_dependencies", "adjustments": [{"step_id": "l", "remove": ["p"]}]}
    for strategy in ({"type": "skip_steps", "step_ids": ["p"]}, adjusted):
        ran = without_the_payment(**strategy, reason=reason)
        assert (ran.result.status, ran.source.counts["mail"]) == ("failed", 0)
        assert "whose effect was not had" in ran.events("reflection_completed")[0].violations[0]


@pytest.mark.parametrize("reason", ["", "no", "not possible"])
def test_a_skip_without_such_a_reason_is_no_account_of_what_is_skipped(reason: str) -> None:
    ran = without_the_payment(type="skip_steps", step_ids=["p", "m"], reason=reason)
    assert not ran.result.is_success
    assert ran.model.calls["evaluation"] == 2


def test_with_a_reason_it_is_one_and_what_follows_is_done() -> None:
    ran = without_the_payment(type="skip_steps", step_ids=["p"], reason="Bob was paid in cash.")
    assert ran.result.is_success
    assert (ran.source.counts["mail"], ran.model.calls["evaluation"]) == (1, 1)
    assert "paid in cash" in ran.result.shortfall[0]


# ── plans ─────────────────────────────────────────────────────────────────────


def said_of(place: str, beside: dict[str, Any]) -> dict[str, Any]:
    if place == "plan":
        return {**PAY, **beside}
    if place == "step":
        return plan({**step("p", "pay", parameters={"to": "bob"}), **beside})
    return plan(step("p", actions=[{"action_id": "a", "tool": "pay", "parameters": {"to": "bob"}, **beside}]))


@pytest.mark.parametrize("place", ["plan", "step", "action"])
def test_a_question_or_a_no_beside_steps_is_told_how_it_is_said_and_counts_if_it_is_said_again(
    place: str,
) -> None:
    for beside in (
        {"ask_first": QUESTION}, {"user_question": QUESTION}, {"clarification_needed": [QUESTION]},
        {"needs_confirmation": True}, {"requires_user_approval": True}, {"confirm_with": "Ann"},
        {"approved": False}, {"status": "blocked"}, {"refusal": "this is a fraud"}, {"cannot": "this is a fraud"},
    ):  # fmt: skip
        ran = planned(said_of(place, beside))
        assert outcome(ran) == ("waiting", 2, 0), beside
        correction = ran.model.requests[1].turns[-1].text
        for way in ("`ask_first`", "`requires_approval`", "`cannot`") if place != "plan" else ():
            assert way in correction, beside
        said = str(next(iter(beside.values()))).strip("[]'")
        assert said in "".join(waits_for(ran)), beside


@pytest.mark.parametrize("place", ["plan", "step", "action"])
def test_one_that_is_then_said_so_or_left_out_counts_for_that(place: str) -> None:
    torn = said_of(place, {"needs_confirmation": True})
    assert outcome(planned(torn, PAY)) == ("succeeded", 2, 1)
    agreed = plan({**PAY["steps"][0], "requires_approval": True})
    assert outcome(planned(torn, agreed)) == ("waiting", 2, 0)
    asked = planned(torn, {"steps": [], "ask_first": QUESTION})
    assert waits_for(asked)[0] == QUESTION


@pytest.mark.parametrize(
    "beside",
    [
        *({"needs_confirmation": False}, {"requires_user_approval": "no"}),
        *({"questions": []}, {"clarification_needed": None}, {"refusal": ""}, {"confidence": 0.4}),
    ],
    ids=str,
)  # fmt: skip
def test_a_plan_that_asks_for_nothing_costs_nothing(beside: Any) -> None:
    assert outcome(planned({**PAY, **beside}))[1:] == (1, 1)


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ({"steps": [], "ask_first": True, "question": QUESTION}, 1),
        ({"steps": [], "ask_first": "yes", "questions": [QUESTION]}, 1),
        ({"steps": [], "ask_first": True, "reasoning": QUESTION}, 1),
        ({"name": "ask_user", "arguments": {"question": QUESTION}}, 1),  # a plan: its step asks
        ({"name": "ask_person", "arguments": {"question": QUESTION}}, 2),
        (plan(step("a", "ask_person", parameters={"to": "bob", "text": QUESTION})), 2),
        ({"steps": [], "status": "needs_clarification", "details": QUESTION}, 2),
    ],
    ids=str,
)
def test_a_question_without_steps_is_put_however_it_is_said(answer: Any, asked: int) -> None:
    ran = planned(answer)
    assert outcome(ran) == ("waiting", asked, 0)
    assert QUESTION in waits_for(ran)[0]


@pytest.mark.parametrize(
    "beside",
    [
        *({"verdict": "not done"}, {"verdict": "No, nothing was paid."}, {"status": "user_input_error"}),
        *({"human_error": True}, {"confirmation_number": "X1"}, {"user_message": "We try again."}),
        *({"recommendation": "Confirm the address and pay again."}, {"missing_information": ["his address"]}),
    ],
    ids=str,
)  # fmt: skip
def test_another_round_is_made_at_once_beside_what_only_tells_of_the_failure(beside: Any) -> None:
    again = {**NO_OTHER, "should_replan": True, "replanning_strategy": {"type": "full_replan"}}
    ran = diagnosed(HANDED_ON, {**again, **beside}).check()
    assert (ran.result.status, ran.model.calls["overall_reflection"]) == ("succeeded", 1)
    ran = diagnosed({**AT_ONCE, **beside}).check()
    assert (ran.result.status, ran.model.calls["step_reflection"]) == ("succeeded", 1)
