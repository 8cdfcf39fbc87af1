"""A diagnosis that makes a call is read as strictly as a plan: what says otherwise beside it is heard, what tells of the failure is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from replan.core.data.taken_back import takes_back
from replan.core.reflection import OverallReflection, StepReflection
from replan.reasoning.diagnosis.action_names import ACTION_FIELDS, STEP_FIELDS
from replan.reasoning.diagnosis.reflector import reflect_on_round, reflect_on_step
from replan.reasoning.prompting.recovery_view import FailureView, ReadingView, RoundView

pytestmark = pytest.mark.anyio

Build = Callable[..., FailureView]
DATA = {"size": "A6"}
RETRY = {"type": "retry_with_params", "data": DATA}
A6: dict[str, Any] = {"suggested_action": RETRY}
OTHER = {"type": "retry_with_tool", "data": {"tool_id": "stamp", "parameters": {}}}
GIVE_UP = {
    "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "the user has to say"}}
}


def anything(_: StepReflection) -> list[str]:
    return []


async def asked(
    script: Any, view: FailureView, *answers: Any
) -> tuple[int, StepReflection | None, tuple[str, ...]]:
    talk = script(*answers)
    found = await reflect_on_step(talk, view, anything)
    return len(talk.asked), found.last, found.left


@pytest.mark.parametrize(
    "answer",
    [
        {**A6, "ask_first": "Is A6 meant?"},
        {**A6, "question": ["Is A6 meant?"]},
        {**A6, "cannot": "nobody knows the size"},
        {**A6, "approved": False},
        {"suggested_action": {**RETRY, "approved": False}},
        {"suggested_action": {**RETRY, "ask_first": "Is A6 meant?"}},
        {"suggested_action": {**RETRY, "when": "the user agrees"}},
        {"suggested_action": {**RETRY, "only_if": "A6 is meant"}},
        {"suggested_action": {**RETRY, "requires_approval": True}},
        {**A6, "requires_approval": True},
        {**A6, "needsApproval": "yes"},
        {**A6, "abort": True},
        {**A6, "ask_user": "Is A6 meant?"},
        {**A6, "was_approved": False},
        {**A6, "do_not_retry": True},
        {"suggested_action": {**RETRY, "stop": "yes"}},
        {**A6, "should_replan": True},
        {**A6, "cannot_retry": True},
        {**A6, "retry_needs_approval": True},
        {**A6, "retry_forbidden": True},
        {**A6, "retry_exhausted": "yes"},
        {**A6, "should_retry": "No, ask Ann first."},
        {"diagnosis": A6, "approved": False},
        {"suggested_action": {"type": "retry_with_tool", "data": {**OTHER["data"], "approved": "no"}}},
    ],
    ids=str,
)
async def test_a_call_beside_a_no_or_a_question_is_not_made_however_often_it_is_said(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer, answer)
    assert (count, left) == (2, ()), "said again, it counts"
    assert last is not None
    assert last.suggested_action.type == "trigger_overall_reflection"
    assert last.suggested_action.words()
    count, last, left = await asked(script, failure_view(), answer, GIVE_UP)
    assert last is not None
    assert (last.suggested_action.type, left) == ("trigger_overall_reflection", ())


REPAIR = {"type": "repair_step", "data": {"hint": "take A6"}}
FIX: dict[str, Any] = {"suggested_action": REPAIR}


@pytest.mark.parametrize(
    "answer",
    [
        {**FIX, "cannot": "nobody knows the size"},
        {**FIX, "ask_first": "Is A6 meant?"},
        {**FIX, "approved": False},
        {**FIX, "requires_approval": True},
        {**FIX, "dry_run": True},
        {"suggested_action": {**REPAIR, "when": "the user agrees"}},
        {"suggested_action": "repair_step", "hint": "take A6", "cannot": "nobody knows the size"},
    ],
    ids=str,
)
async def test_nor_is_a_step_written_anew_beside_one(answer: Any, script: Any, failure_view: Build) -> None:
    count, last, left = await asked(script, failure_view(), answer, answer)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.type == "trigger_overall_reflection"
    count, last, left = await asked(script, failure_view(), answer, FIX)
    assert last is not None
    assert (last.suggested_action.type, left) == ("repair_step", ())


@pytest.mark.parametrize(
    "answer",
    [
        {**FIX, "is_recoverable": False, "root_cause_category": "parameter_error"},
        {**FIX, "should_retry": "no"},
        {**FIX, "confidence": 0},
        {"suggested_action": {**REPAIR, "repair": False}},
        {**FIX, "fallback": GIVE_UP["suggested_action"]},
    ],
    ids=str,
)
async def test_a_repair_that_something_contradicts_is_asked_about_once(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer, answer)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.type == "repair_step"


@pytest.mark.parametrize(
    "answer",
    [
        FIX,
        {"suggested_action": {"type": "repair_step", "hint": "take A6", "reason": "A5 is not there"}},
        {"suggested_action": "repair_step", "hint": "take A6"},
        {"suggested_action": {"repair_step": {"hint": "take A6"}}},
        {**FIX, "status": "failed", "error": "no such size", "is_recoverable": True, "confidence": 0.1},
        {**FIX, "is_recoverable": False, "root_cause_category": "server_error"},
        {**FIX, "root_cause": "Do not make this call.", "analysis": "Do not retry this."},
    ],
    ids=str,
)
async def test_an_honest_repair_costs_nothing_and_its_prose_decides_nothing(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer)
    assert (count, left) == (1, ())
    assert last is not None
    assert last.suggested_action.type == "repair_step"


@pytest.mark.parametrize(
    "answer",
    [
        {**A6, "confidence": 0},
        {**A6, "confidence_score": "0 %"},
        {**A6, "dry_run": True},
        {**A6, "when": "the user agrees"},
        {"suggested_action": {**RETRY, "dry_run": True}},
        {"suggested_action": {"type": "retry_with_tool", "data": {**OTHER["data"], "dry_run": True}}},
        {**A6, "is_recoverable": False, "root_cause_category": "parameter_error"},
        {**A6, "recoverable": "no"},
        {**A6, "should_retry": False},
        {**A6, "can_be_made_again": False},
        {**A6, "had_effect": True},
        {**A6, "call_was_made": "yes"},
        {**A6, "may_be_executed": False},
        {**A6, "risk": "high"},
        {"suggested_action": {**RETRY, "retry": False}},
        {**A6, "fix": GIVE_UP["suggested_action"]},
        {"diagnosis": {**A6, "is_recoverable": 0}},
    ],
    ids=str,
)
async def test_what_may_take_a_call_back_is_asked_about_once(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer, A6)
    assert count == 2
    assert last is not None
    assert (last.suggested_action.type, left) == ("retry_with_params", ())


@pytest.mark.parametrize(
    "answer",
    [
        A6,
        {"name": "step_reflection", "arguments": A6},
        {"name": "step_reflection", "arguments": json.dumps(A6)},
        {"type": "function", "function": {"name": "step_reflection", "arguments": json.dumps(A6)}},
        [{"name": "step_reflection", "arguments": A6}],
        {"reflection": A6},
        {**A6, "is_recoverable": False, "root_cause_category": "server_error"},
        {**A6, "is_recoverable": 1, "root_cause_category": "parameter_error", "transient": False},
        {**A6, "status": "failed", "error": "no such size A5", "severity": "low", "success": False},
        {**A6, "ask_first": None, "cannot": "", "question": "none", "notes": "A6 is what the tool has named"},
        {**A6, "confidence": "high", "explanation": "x", "step_id": "step_1", "tool": "print_label"},
        {"suggested_action": {**RETRY, "reason": "A6 exists", "confidence": 0.9}},
        {"suggested_action": {"type": "retry_with_params", "size": "A6"}},
        {**A6, "attempt": 0, "alternative_solutions": "no", "analysis": "no"},
        {"suggested_action": "retry_with_params", "data": DATA},
        {"suggested_action": {"retry_with_params": DATA}},
        {"suggested_action": {"type": "retry_with_params"}, "data": DATA},
        {**A6, "action": "retry_with_params", "data": DATA},
        {**A6, "next_action": {"type": "retry_with_parameters", "data": {"parameters": DATA}}},
        {"suggested_action": {**RETRY, "parameters": DATA, "action_type": "retry_params"}},
        {**A6, "requires_approval": False},
        {**A6, "should_retry": True, "retry": "yes"},
        {**A6, "retry_recommended": True, "safe_to_retry": "yes", "is_retryable": True},
        {
            **A6,
            "step_status": "failed",
            "valid_parameters": False,
            "input_valid": "no",
            "parameters_correct": False,
        },
        {**A6, "effect_taken": "no", "had_effect": False, "call_was_made": "nein", "side_effects": False},
        {**A6, "ask_first": "No.", "question": "not needed", "cannot": False, "requires_human": "no"},
        {
            **A6,
            "escalate": False,
            "give_up": "no",
            "abort": False,
            "should_replan": False,
            "needs_replan": "no",
        },
        {**A6, "idempotent": False, "tool_available": False, "recipient_found": "no", "exists": False},
        {**A6, "risk": "low", "priority": "high", "retries": 0, "outcome": "not executed"},
        {"suggested_action": {**RETRY, "requires_approval": "not required", "ask_first": "不需要"}},
        {**A6, "is_first_failure": True, "last_error": "no such size", "repeated_failure": False},
    ],
    ids=str,
)
async def test_what_tells_of_the_failure_or_only_wraps_the_diagnosis_costs_nothing(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer)
    assert (count, left) == (1, ())
    assert last is not None
    assert last.suggested_action.model_dump() == {"type": "retry_with_params", "data": DATA}


@pytest.mark.parametrize(
    "words",
    [
        "The call was not made, because the size A5 is not there.",
        "The payment failed: the tool has refused it, but it has named A6.",
        "Nothing was sent. The step was unsuccessful.",
    ],
)
async def test_honest_words_about_the_failure_are_asked_about_once_and_lose_no_recovery(
    words: str, script: Any, failure_view: Build
) -> None:
    answer = f"{words}\n\n```json\n{json.dumps(A6)}\n```"
    count, last, left = await asked(script, failure_view(), answer, answer)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.data == DATA


@pytest.mark.parametrize(
    "words", ["I would not make this call.", "This call must not be made.", "Do not run this."]
)
async def test_words_that_refuse_the_call_are_heard_each_time(
    words: str, script: Any, failure_view: Build
) -> None:
    answer = f"{words}\n\n```json\n{json.dumps(A6)}\n```"
    count, _, left = await asked(script, failure_view(), answer, answer, answer)
    assert count == 3
    assert "may take it back" in " ".join(left)


@pytest.mark.parametrize("words", ["The call was not made.", "It failed.", "the payment did not go through"])
def test_words_that_say_that_nothing_was_done_take_back_what_says_that_it_was(words: str) -> None:
    assert takes_back(words)
    assert not takes_back(words, of_a_failure=True)


@pytest.mark.parametrize(
    "answer",
    [
        {**A6, "is_recoverable": True, "isRecoverable": False},
        {"suggested_action": {**RETRY, "Type": "trigger_overall_reflection"}},
        {"suggested_action": {**RETRY, "Data": {"size": "A9"}}},
        {**A6, "type": "trigger_overall_reflection"},
        {**A6, "data": {"size": "A9"}},
        {**A6, "recoverable": False, "is_recoverable": True},
        {**A6, "action": "give_up"},
        {"action": RETRY, "next_action": GIVE_UP["suggested_action"]},
        {
            "suggested_action": {
                **OTHER,
                "data": {**OTHER["data"], "params": {"size": "A9"}, "args": {"size": "A6"}},
            }
        },
        {"suggested_action": "retry_with_params", "data": DATA, "parameters": {"size": "A9"}},
    ],
    ids=str,
)
async def test_two_spellings_that_say_two_things_are_no_call_however_often_they_come(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), answer, answer)
    assert (count, last) == (2, None)
    assert "which is the same field" in " ".join(left)


@pytest.mark.parametrize("name", STEP_FIELDS["suggested_action"])
async def test_every_name_that_is_read_as_the_action_is_compared_with_it(
    name: str, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), {name: RETRY})
    assert (count, left) == (1, ())
    assert last is not None
    assert last.suggested_action.data == DATA
    for other in (GIVE_UP["suggested_action"], {**RETRY, "data": {"size": "A9"}}, "give_up"):
        _, last, left = await asked(script, failure_view(), *[{**A6, name: other}] * 2)
        assert last is None
        assert "which is the same field" in " ".join(left)


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        *((name, "retry_with_params", "give_up") for name in (*ACTION_FIELDS["type"], "name", "kind")),
        *((name, DATA, {"size": "A9"}) for name in ACTION_FIELDS["data"]),
    ],
)
async def test_every_name_that_is_read_as_a_field_of_the_action_is_compared_with_it(
    name: str, value: Any, other: Any, script: Any, failure_view: Build
) -> None:
    own = "data" if name in ACTION_FIELDS["data"] else "type"
    alone = {key: said for key, said in RETRY.items() if key != own} | {name: value}
    count, last, left = await asked(script, failure_view(), {"suggested_action": alone})
    assert (count, left) == (1, ())
    assert last is not None
    assert last.suggested_action.data == DATA
    _, last, left = await asked(script, failure_view(), *[{"suggested_action": {**RETRY, name: other}}] * 2)
    assert last is None
    assert "which is the same field" in " ".join(left)


@pytest.mark.parametrize(
    "words", ["Which Bob is meant?", "Welcher Bob ist gemeint?", "请问是哪个Bob？", "I refuse to do this."]
)
async def test_a_diagnosis_in_words_that_ask_or_refuse_is_handed_on_with_them(
    words: str, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, failure_view(), words, words)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.model_dump() == {
        "type": "trigger_overall_reflection",
        "data": {"summary": words},
    }
    count, last, _ = await asked(script, failure_view(), words, A6)
    assert last is not None
    assert last.suggested_action.data == DATA


async def test_a_round_that_is_judged_in_words_that_only_refuse_is_not_judged(
    script: Any, round_view: Callable[..., RoundView]
) -> None:
    words = "I am afraid that I cannot do that."
    found = await reflect_on_round(script(words, words), round_view(), no_objection)
    assert found.last is None
    assert found.left


async def test_a_round_that_is_judged_in_words_that_ask_puts_them_to_the_person(
    script: Any, round_view: Callable[..., RoundView]
) -> None:
    talk = script("Which Bob is meant?", "Which Bob is meant?")
    found = await reflect_on_round(talk, round_view(), no_objection)
    assert len(talk.asked) == 2
    assert "`ask` says what" in talk.asked[1].request.turns[-1].text
    assert found.last is not None
    assert (found.last.should_replan, found.last.ask, found.left) == (False, "Which Bob is meant?", ())


READING = ReadingView("print_queue", {}, output='{"id": "pm_17"}')
SETTLED = {"happened": True, "evidence": '"id": "pm_17"'}


def settled(data: Any = None, action: Any = None, **beside: Any) -> dict[str, Any]:
    """A diagnosis that settles, with what stands in its data, its action and beside it."""
    return {
        "suggested_action": {"type": "settle_outcome", "data": SETTLED | (data or {}), **(action or {})},
        **beside,
    }


def in_doubt(failure_view: Build) -> FailureView:
    allowed = ("verify_outcome", "settle_outcome", "trigger_overall_reflection")
    return failure_view(in_doubt=True, allowed=allowed, readings=[READING])


@pytest.mark.parametrize(
    "answer",
    [
        settled(cannot="I cannot tell whether this record is ours."),
        settled(ask_first="Is pm_17 ours?"),
        settled(refusal="I refuse"),
        settled(happened=False),
        settled(action={"ask_first": "Is pm_17 ours?"}),
        settled(action={"requires_approval": True}),
        settled({"ask_first": "Is pm_17 ours?"}),
        settled({"error": "I cannot tell"}),
    ],
    ids=str,
)
async def test_a_settlement_is_none_beside_a_no_or_a_question_wherever_it_stands(
    answer: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, in_doubt(failure_view), answer, answer)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.type == "trigger_overall_reflection", "said again, it counts"
    assert last.suggested_action.words()


@pytest.mark.parametrize(
    "beside",
    [
        {"had_effect": False},
        {"outcome": "not executed"},
        {"status": "unresolved"},
        {"conclusion": "cannot be determined"},
        {"confidence": 0},
    ],
    ids=str,
)
async def test_what_may_take_a_settlement_back_is_asked_about_once(
    beside: Any, script: Any, failure_view: Build
) -> None:
    count, last, left = await asked(script, in_doubt(failure_view), *[settled(**beside)] * 2)
    assert (count, left) == (2, ())
    assert last is not None
    assert last.suggested_action.type == "settle_outcome"


@pytest.mark.parametrize(
    "answer",
    [
        settled(),
        settled(is_recoverable=False, confidence=0.9, root_cause="no answer in time", status="failed"),
        settled(should_retry=False, ask_first="none"),
        {"suggested_action": {"type": "settle_outcome", **SETTLED}},
        {"suggested_action": "settle_outcome", "data": SETTLED},
        {"suggested_action": "settle_outcome", **SETTLED},
    ],
    ids=str,
)
async def test_an_honest_settlement_costs_nothing(answer: Any, script: Any, failure_view: Build) -> None:
    count, last, left = await asked(script, in_doubt(failure_view), answer)
    assert (count, left) == (1, ())
    assert last is not None
    assert last.suggested_action.data["happened"] is True


@pytest.mark.parametrize("turned", [False, True])
async def test_a_call_that_one_answer_settles_both_ways_is_not_settled(
    turned: bool, script: Any, failure_view: Build
) -> None:
    two = [json.dumps(settled()), json.dumps(settled({"happened": False}))]
    answer = "\n".join(reversed(two) if turned else two)
    talk = script(answer, answer)

    def check(found: StepReflection) -> list[str]:
        return [] if found.suggested_action.data["happened"] else ["the reading shows it"]

    found = await reflect_on_step(talk, in_doubt(failure_view), check)
    assert len(talk.asked) == 2
    assert "exactly one is wanted" in " ".join(found.left)


def no_objection(_: OverallReflection) -> list[str]:
    return []


AGAIN = {
    "should_replan": True,
    "reflection_text": "x",
    "problem_nature": "parameters",
    "replanning_strategy": {"type": "full_replan", "reason": "z"},
}


@pytest.mark.parametrize(
    ("beside", "asked_of_a_person", "told"),
    [
        ({"ask_first": "Ann has to agree first."}, "Ann has to agree first.", ""),
        ({"questions": ["Is it Bob?"]}, "Is it Bob?", ""),
        ({"requires_approval": True}, "Another plan wants a yes first", ""),
        ({"cannot": "fraud"}, "", "cannot: fraud"),
        ({"approved": False}, "", "approved: False"),
        ({"status": "rejected"}, "", "status: rejected"),
        ({"abort": "yes"}, "", "abort: yes"),
        ({"escalate": True}, "", "escalate: True"),
        ({"terminate": True}, "", "terminate: True"),
        ({"can_replan": False}, "", "can_replan: False"),
        ({"status": "blocked"}, "", "status: blocked"),
        ({"ask_user": "Which Bob?"}, "Which Bob?", ""),
        ({"needs_human": True}, "Another plan wants a yes first", ""),
        ({"replanning_strategy": {"type": "full_replan", "ask_first": "Which Bob?"}}, "Which Bob?", ""),
        (
            {"replanning_strategy": {"type": "full_replan", "data": {"ask_first": "Which Bob?"}}},
            "Which Bob?",
            "",
        ),
        (
            {"replanning_strategy": {"type": "full_replan", "requires_approval": True}},
            "wants a yes first",
            "",
        ),
        ({"replanning_strategy": {"type": "full_replan", "when": "Ann agrees"}}, "Ann agrees", ""),
        ({"replanning_strategy": {"type": "full_replan", "cannot": "fraud"}}, "", "cannot: fraud"),
        ({"replanning_strategy": "ask the user first"}, "", "ask the user first"),
        ({"replanning_strategy": {"type": "ask_user"}}, "", "ask_user"),
        ({"replanning_strategy": {"type": "stop"}}, "", "stop"),
        ({"replanning_strategy": {"type": "none"}}, "", "none"),
    ],
    ids=str,
)
async def test_another_round_beside_a_no_or_a_question_goes_back_once_and_then_there_is_none(
    beside: Any, asked_of_a_person: str, told: str, script: Any, round_view: Callable[..., RoundView]
) -> None:
    torn = AGAIN | beside
    talk = script(torn, torn)
    found = await reflect_on_round(talk, round_view(), no_objection)
    assert len(talk.asked) == 2
    assert "which says otherwise" in " ".join(found.violations)
    assert found.last is not None
    assert (found.last.should_replan, found.left) == (False, ())
    assert asked_of_a_person in found.last.ask
    assert told in found.last.reflection_text

    meant = await reflect_on_round(script(torn, AGAIN), round_view(), no_objection)
    assert meant.last is not None
    assert meant.last.should_replan
    assert not meant.last.ask


@pytest.mark.parametrize(
    "beside",
    [
        {"ask": "", "cannot": None, "questions": "none", "requires_approval": False, "approved": True},
        {"status": "failed", "success": False, "error": "no such size", "failed_steps": ["step_1"]},
        {"ask_first": "not needed", "requires_approval": "not required", "escalate": False},
        {"ask_first": "nicht nötig", "cannot": "无", "needs_human": "no", "should_replan": "ja"},
    ],
    ids=str,
)
async def test_what_tells_of_a_failed_round_asks_nothing_beside_another(
    beside: Any, script: Any, round_view: Callable[..., RoundView]
) -> None:
    talk = script(AGAIN | beside)
    found = await reflect_on_round(talk, round_view(), no_objection)
    assert len(talk.asked) == 1
    assert found.last is not None
    assert found.last.should_replan
