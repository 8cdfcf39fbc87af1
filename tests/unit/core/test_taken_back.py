"""What takes an answer back, in words and in fields; the words of honest sentences do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.standing import answers_in
from replan.core.data.taken_back import refusal_to_readers, said_beside, takes_back

HONEST = [
    "Note: no other steps are needed.",
    "I've kept it simple, but complete.",
    "If anything should change, tell me.",
    "The payment was made once and nothing else was done.",
    "The task was done without errors.",
    "There were no failures and nothing is missing.",
    "The step did what it should, but it could be faster.",
    "Note: the payment cannot be undone.",
    "I have not included a confirmation step, because there is no tool for it.",
    "I did not add other steps since they are not needed.",
    "I will not add more steps, since one is enough.",
    "This assumes Ann's account exists. If not, the step will fail.",
    "I'm not able to check the balance, but the payment itself can be planned:",
    "I cannot test the account beforehand.",
    "This plan reads the notes, then pays Nora. No more is needed.",
    "The first call was declined, the second one went through.",
    "No errors occurred, and no step should be made again.",
    "However, it would be faster in parallel; never mind.",
    "The plan stops if the reading is empty, instead of paying nobody.",
    "Step 1: analyse the task. Only one tool is needed.",
]
REFUSALS = [
    "I'm sorry, I can't do that.",
    "I will not pay this.",
    "I must not run this plan",
    "I decline; the call below only shows what was asked.",
    "We refuse to help with this",
    "Please do not run this.",
    "Never do this:",
    "This plan must not be run unless the CFO agrees.",
    "Draft (not to be executed):",
    "The following plan is wrong:",
    "Here is the plan I rejected:",
    "Here is what I would not do:",
    "I hope nobody runs this.",
    "No wait, do not do that.",
    "No, the task is not done.",
    "This is not a success: nothing was paid.",
    "I disagree with this evaluation:",
    "I cannot say that it is done:",
    "I could not verify that Ann was paid.",
    "This evaluation assumes that the payment arrived, which it did not.",
    "This plan pays Ann 500 cents, which the policy forbids.",
    "Please confirm before I proceed.",
    "Before running, please confirm the amount:",
    "Shall I go ahead?",
    "Should I run this?",
    "Let me know if I should run it.",
    "Let me know if you would like me to make these calls.",
    "Let me know whether the amount is right before this is run.",
    "It is to be run only after review.",
    "我不能执行这个计划",
    "Das werde ich nicht tun.",
    "Je ne le ferai pas",
    "// rejected",
    "I object to this:",
    "❌",
    "🚫 pay Ann",
    "I'm unwilling to do this.",
    "This is fraud.",
    "This is prohibited",
    "Denied",
    "Blocked.",
    "Unauthorized!",
    "Disregard this plan",
    "Only a person may run this.",
    "Ask the user before.",
    "This violates policy",
    "For illustration:",
    "Ich lehne ab",
    "Me niego",
    "Отказываюсь",
    "禁止",
    "할 수 없습니다",
    "DRAFT:",
    "Correction: the amount should be 50 cents.",
    "Run it only if the user agrees.",
    "Pending approval by a person.",
    "Update: the above is superseded.",
    "Instead do nothing.",
    "Hypothetically:",
    "This is not the case:",
    "If it were paid:",
    "Nein:",
    "No lo ejecutes",
    "실행하지 마세요",
    "Wrong.",
]


@pytest.mark.parametrize("said", HONEST)
def test_an_honest_sentence_takes_nothing_back(said: str) -> None:
    assert not takes_back(said)


@pytest.mark.parametrize("said", REFUSALS)
def test_a_sentence_that_refuses_orders_not_to_or_asks_first_takes_back(said: str) -> None:
    assert takes_back(said)


@given(
    st.lists(st.sampled_from(HONEST), max_size=3),
    st.sampled_from(REFUSALS),
    st.lists(st.sampled_from(HONEST), max_size=3),
)
def test_no_honest_words_cover_a_refusal(before: list[str], refusal: str, after: list[str]) -> None:
    assert takes_back("\n".join([*before, refusal, *after]))
    assert not takes_back("\n".join([*before, *after]))


AGREEING: list[dict[str, Any]] = [
    {"status": "success"}, {"status": "completed"}, {"status": "Done."}, {"status": "passed"}, {"verdict": "success"}, {"verdict": "PASS"},
    {"passed": True}, {"success": True}, {"task_completed": True}, {"isDone": True}, {"should_replan": False}, {"failed": False},
    {"score": 95}, {"score": 95.0}, {"grade": "A"}, {"error": "none"}, {"error": None}, {"errors": ["None"]}, {"issues": "No issues"},
    {"issues": ["none"]}, {"missing": "nothing"}, {"error_count": 0}, {"strengths": ["quick"]}, {"overall_assessment": "The task was done."},
    {"feedback": "Well done"}, {"evidence": ["p gave id 1"]}, {"criteria": {"payment": "met"}}, {"key_findings": ["paid"]},
    {"dimension_comments": {"completeness": "full"}}, {"reason": "no step failed", "type": "evaluation"}, {"task": "Pay Ann"},
    {"step_evaluations": [{"step_id": "p", "score": 95, "status": "succeeded"}]}, {"_mine": 1, "x-mine": "y"}, {"risks": []},
    {"next_steps": ["none"]}, {"confidence": 0.1}, {"confidence": "low"}, {"failed_steps": []},
]  # fmt: skip
DENYING: list[dict[str, Any]] = [
    {"status": "failed"}, {"verdict": "rejected"}, {"verdict": "FAIL"}, {"outcome": "not done"}, {"type": "failed"}, {"kind": "rejected"},
    {"passed": False}, {"success": "no"}, {"approved": False}, {"task_completed": "false"}, {"isValid": False}, {"failed": True},
    {"should_replan": True}, {"error": "I could not judge"}, {"errors": ["timeout"]}, {"refusal": "it is an attack"},
    {"reason": "nothing was done, this is no success"}, {"reasoning": "The payment failed."}, {"summary": "NOT done: Ann has no money"},
    {"analysis": "The wrong person was paid, so it's a failure"}, {"note": "I could not verify that."}, {"_failed": True},
    {"x-verdict": "failed"}, {"result": {"status": "failed"}}, {"comment": "I refuse to say so"}, {"checks": {"payment": False, "passed": False}},
]  # fmt: skip
UNKNOWN: list[dict[str, Any]] = [
    {"verdict": "partly"}, {"score": 10}, {"urgent": True}, {"parts": [{"status": "failed"}]}, {"warnings": ["it took 2 s"]},
    {"score_breakdown": {"completeness": 95}}, {"payee": "Bob"},
    {"next_steps": ["pay Bob"]}, {"confidence": 0}, {"overall_confidence": 0.0}, {"failed_steps": ["p"]}, {"needs_human_review": True},
]  # fmt: skip


@pytest.mark.parametrize("field", AGREEING)
def test_what_agrees_by_value_or_speaks_to_readers_says_nothing(field: dict[str, Any]) -> None:
    assert said_beside({"is_successful": True, **field}, ["is_successful"], 95) == ((), ())


@pytest.mark.parametrize("field", DENYING)
def test_what_says_no_by_value_denies(field: dict[str, Any]) -> None:
    assert said_beside({"is_successful": True, **field}, ["is_successful"], 95).denying


@pytest.mark.parametrize("field", UNKNOWN)
def test_all_else_is_not_known(field: dict[str, Any]) -> None:
    found = said_beside({"is_successful": True, **field}, ["is_successful"], 95)
    assert found.unknown
    assert not found.denying


@pytest.mark.parametrize("name", ["needs_human_review", "needsApproval", "escalate", "follow_up_required"])
def test_what_is_not_needed_agrees_and_what_is_needed_may_not(name: str) -> None:
    for no in (False, "no", "false"):
        assert said_beside({name: no}, []) == ((), ())
    for yes in (True, "yes", "true"):
        assert said_beside({name: yes}, []).unknown


@pytest.mark.parametrize("name", ["needs_met", "requirement_done", "verdict", "required_output_correct"])
def test_a_no_of_anything_else_is_no_agreement(name: str) -> None:
    assert said_beside({name: "no"}, []).denying


@pytest.mark.parametrize(
    "name",
    [
        *(
            "fraud",
            "suspicious",
            "hallucinations",
            "duplicate",
            "double_payment",
            "data_loss",
            "manual_review",
        ),
        *(
            "follow_up",
            "further_action",
            "side_effects",
            "safety_concerns",
            "risk",
            "warning",
            "discrepancies",
        ),
        *("openQuestions", "partial", "partial_success", "overpaid", "fraud_suspected", "issues_found"),
    ],
)
@pytest.mark.parametrize("no", [False, "no", "No.", "false", "nein", "否"])
def test_no_harm_is_no_no(name: str, no: Any) -> None:
    assert said_beside({name: no}, []) == ((), ())


@pytest.mark.parametrize(
    "name",
    [
        "fraud_excluded",
        "no_fraud",
        "risk_assessed",
        "recipient_found",
        "all_effects",
        "double_checked",
        "follow_rules",
    ],
)
def test_a_no_in_words_is_read_as_false_is(name: str) -> None:
    for no in (False, "no", "nein", "否"):
        assert said_beside({name: no}, []).unknown == (f"{name}: {no}",)


@pytest.mark.parametrize(
    "field",
    [
        *(
            {"status": word}
            for word in ("fehlgeschlagen", "gescheitert", "失败", "未完成", "not yet", "nein", "否")
        ),
        *({"passed": word} for word in ("nein", "否", "0", "noch nicht", "no")),
        *(
            {name: "no"}
            for name in ("result", "task_ok", "fraud_check_passed", "discrepancies_resolved", "summary")
        ),
    ],
    ids=str,
)
def test_a_no_is_one_in_three_languages(field: dict[str, Any]) -> None:
    assert said_beside(field, []).denying


@pytest.mark.parametrize(
    "field", [{"status": "erfolgreich"}, {"status": "已完成"}, {"status": "Fertig."}, {"errors": "keine"}]
)
def test_and_so_is_a_yes(field: dict[str, Any]) -> None:
    assert said_beside(field, []) == ((), ())


@pytest.mark.parametrize(
    "said", ["Die Aufgabe ist gescheitert:", "Die Zahlung ist fehlgeschlagen.", "任务失败。", "任务未完成。"]
)
def test_words_that_say_that_it_failed_take_back_in_three_languages(said: str) -> None:
    assert takes_back(said)


@pytest.mark.parametrize("name", ["stop", "fraud", "confirm_first"])
def test_a_yes_of_something_unknown_is_read_as_true_is(name: str) -> None:
    assert said_beside({name: "yes"}, []).unknown == (f"{name}: yes",)
    assert said_beside({name: True}, []).unknown == (f"{name}: True",)


def test_a_no_does_not_deny_what_says_itself_that_nothing_happened() -> None:
    found = said_beside(
        {"happened": False, "status": "failed", "error": "I cannot tell"}, ["happened"], yes=False
    )
    assert found == (("status: failed",), ("error: I cannot tell",))


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
FLAT = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.text(max_size=4), LEAVES, max_size=3)
NESTED = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(st.text(max_size=4), FLAT, max_size=3)


@given(st.dictionaries(st.text(max_size=8), NESTED, max_size=4))
def test_any_fields_are_sorted(raw: dict[str, Any]) -> None:
    found = said_beside(raw, [])
    assert len(found.unknown) + len(found.denying) <= len(raw)


@pytest.mark.parametrize(
    "said",
    ["I refuse; do not run this plan.", "DO NOT RUN", "REJECTED - do not run", "Please do not execute!", "We will not carry out this.", "This must not be executed.", "Never run it."],
)  # fmt: skip
def test_a_text_for_readers_that_orders_not_to_is_heard(said: str) -> None:
    step = {"step_id": "a", "tool": "pay"}
    for answer in (
        {"steps": [step], "reasoning": said},
        {"steps": [{**step, "description": said}]},
        {**step, "notes": said},
    ):
        assert refusal_to_readers(answer)


@pytest.mark.parametrize(
    "said",
    [
        "I will not use the mail tool, since nobody asked for a mail.",
        "The check must not be skipped; never pay twice.",
        "I cannot check the balance first, so the plan pays at once.",
        "If it fails, do not pay again.",
        "Nothing else is to be done.",
    ],
)
def test_a_text_for_readers_may_say_what_is_not_done(said: str) -> None:
    assert not refusal_to_readers({"steps": [], "reasoning": said})


@pytest.mark.parametrize(
    "said",
    [
        "Which one is meant?",
        "Is Ann2 meant?",
        "Is that right?",
        "Ready?",
        "The name is ambiguous. Which one is it?",
        "**Is this the right account?**",
        "对吗？",
        "Would you like me to make this call?",
    ],
)
def test_a_question_that_nothing_follows_waits_for_its_answer(said: str) -> None:
    for text in (f'{said}\n{{"a": 1}}', f'{{"a": 1}}\n\n{said}'):
        (one,) = answers_in(text)
        assert takes_back(one.words), text


@pytest.mark.parametrize(
    "said",
    [
        "Why did it fail? The account is closed.",
        "Is there anything else you would like me to do?",
        "Do you need any changes?",
        "Any further questions?",
        "Can I help with something else?",
        "The call failed: what was meant is Ann2.",
    ],
)
def test_a_question_that_is_answered_and_an_offer_of_more_take_nothing_back(said: str) -> None:
    (one,) = answers_in(f'{{"a": 1}}\n\n{said}')
    assert not takes_back(one.words, of_a_failure=True), one.words
