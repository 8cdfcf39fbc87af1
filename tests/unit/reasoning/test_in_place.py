"""What is said where a plan was wanted: a question, a refusal, that nothing is left; and never a plan that was not written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.types import Plan
from replan.reasoning.planning.in_place import InPlace

STEP = {"step_id": "a", "tool": "pay", "parameters": {"to": "bob"}}
QUESTION = "Which Ann is meant, Ann A. or Ann B.?"
REFUSAL = "I'm sorry, but I can't help with that."


def read(answer: Any, *, again: bool = True, last: bool = False, **asked: Any) -> Any:
    return InPlace(**asked)(answer if isinstance(answer, str) else json.dumps(answer), again=again, last=last)


@pytest.mark.parametrize(
    "answer",
    [
        QUESTION,
        f"The task names an Ann. {QUESTION}",
        {"status": "needs_input", "message": QUESTION},
        {"steps": [], "reasoning": QUESTION},
        {"plan": {"steps": None, "note": [QUESTION]}},
        {"steps": [{"step_id": "a", "tool": "ask_user", "parameters": {"question": QUESTION}}]},
    ],
)
def test_a_question_is_heard_once_it_was_said_how_one_is_asked(answer: Any) -> None:
    assert read(answer, again=False) is None
    found = read(answer)
    assert found["steps"] == []
    assert QUESTION in found["ask_first"]


@pytest.mark.parametrize(
    "answer", [REFUSAL, {"refusal": REFUSAL}, {"error": REFUSAL}, {"steps": [], "reasoning": REFUSAL}]
)
def test_a_refusal_is_heard_once_it_was_said_how_one_is_told(answer: Any) -> None:
    assert read(answer, again=False) is None
    assert REFUSAL in read(answer)["cannot"]


def test_a_no_by_value_is_told_where_there_are_no_other_words() -> None:
    assert read({"steps": [], "status": "rejected"}) == {"steps": [], "cannot": "status: rejected"}


LEFT_BY_STRUCTURE: list[Any] = [
    {}, [], "null", {"steps": None}, {"steps": [], "status": "done"}, {"steps": [], "more": 0},
    {"plan": {}}, {"steps": [], "done": True, "reasoning": "Done."}, [[]], [{}], {"steps": "none"}, {"steps": [None, {}]},
    {"steps": [], "task_type": "payment", "plan_id": "rest", "message": "All done.", "note": "none", "total": []},
]  # fmt: skip
LEFT_BY_WORDS: list[Any] = [
    "Nothing is left to do.",
    "All parts of the task have been carried out.",
    "There are no more steps to plan.",
    "Nothing.",
    "OK",
    {"steps": [], "more": "No more steps."},
    {"steps": [], "state": "whatever"},
    {"steps": [], "reasoning": "I will not mail Bob."},
    {"steps": [], "note": "Bob is still to be mailed."},
    {"steps": [], "remaining": ["mail Bob"]},
    {"steps": [], "remaining": 3},
    {"steps": [], "status": "partial"},
]


NOES: list[Any] = [
    {"error": "no mail tool"},
    {"errors": ["no mail tool"]},
    {"Refusal": "not today"},
    {"problem": {"text": "no mail tool"}},
    {"objection": "kein Werkzeug"},
    {"error": "没有邮件工具"},
]
NO_NOES: list[Any] = [
    {"error": "none"}, {"errors": [], "problem": ""}, {"refusal": None}, {"error": "No errors."}, {"problems": "no problems found"},
    {"error": 0}, {"errors": ["none"]}, {"error": "keine"}, {"error": "Kein Fehler."}, {"problem": "无"}, {"errors": "没有错误。"},
]  # fmt: skip


@pytest.mark.parametrize("answer", NOES)
@pytest.mark.parametrize("judged", [True, False])
def test_a_field_that_is_named_for_a_no_is_one_beside_no_steps(answer: Any, judged: bool) -> None:
    for rest in (True, False):
        assert read(answer, again=False, rest=rest, judged=judged) is None
        assert read(answer, rest=rest, judged=judged)["cannot"]


@pytest.mark.parametrize("answer", NO_NOES)
def test_one_that_holds_nothing_is_none(answer: Any) -> None:
    assert read(answer, again=False, rest=True, judged=True) is not None
    in_place = InPlace(rest=True)
    for _ in range(2):
        assert in_place(json.dumps({"steps": [STEP], **answer}), again=True) is None


@pytest.mark.parametrize("answer", [*NOES, {"cannot": "no mail tool"}, {"impossible": ["no mail tool"]}])
def test_beside_steps_it_is_told_once_and_then_counts_in_place_of_them(answer: Any) -> None:
    in_place = InPlace()
    both = json.dumps({"steps": [STEP], **answer})
    assert in_place('{"steps": [{}], "x": 1}', again=False) is None, "another fault is no word of it"
    assert in_place(both, again=True) is None
    found = in_place(both, again=True)
    assert found is not None
    assert found["steps"] == []
    assert len(found) == 2


def test_a_question_beside_steps_is_put_to_the_person_once_it_is_said_again() -> None:
    in_place = InPlace()
    both = json.dumps({"steps": [STEP], "question": QUESTION})
    assert in_place(both, again=False) is None
    assert in_place(both, again=True) == {"steps": [], "question": QUESTION}


def said_in(answer: Any) -> str:
    words = (
        [str(one) for name, one in answer.items() if name != "steps"]
        if isinstance(answer, dict)
        else [answer]
    )
    return words[0].strip("[]'")


@pytest.mark.parametrize("answer", LEFT_BY_STRUCTURE)
@pytest.mark.parametrize("judged", [True, False])
def test_where_the_rest_is_asked_for_an_answer_that_holds_nothing_plans_nothing(
    answer: Any, judged: bool
) -> None:
    assert read(answer, again=False, rest=True, judged=judged) == {"steps": []}
    assert read(answer, again=False) is None, "of a first plan it is no answer"


@pytest.mark.parametrize("answer", LEFT_BY_WORDS)
def test_words_for_nothing_left_are_for_who_judges_and_for_nobody_else(answer: Any) -> None:
    found = read(answer, again=False, rest=True, judged=True)
    assert found["steps"] == []
    assert found.keys() == {"steps", "reasoning"} or said_in(answer) in ("OK", "Nothing.")
    assert said_in(answer) in found.get("reasoning", said_in(answer)), "who judges has every word of it"
    assert read(answer, again=False, rest=True) is None
    assert "cannot" in (read(answer, rest=True) or {"cannot": ""}), "by steps it is no success"


@pytest.mark.parametrize(
    "said",
    [
        "The task is complete.", "No steps remaining.", "Nothing to do",
        "Es ist alles erledigt.", "Nichts mehr zu tun.", "Fertig.", "Keine weiteren Schritte nötig.", "Die Aufgabe ist abgeschlossen.",
        "任务已完成。", "没有剩余步骤。", "已全部完成", "无", "无需更多步骤",
    ],
)  # fmt: skip
def test_nothing_left_is_understood_in_three_languages_where_a_model_judges(said: str) -> None:
    assert read(said, again=False, rest=True, judged=True)["steps"] == []
    assert "cannot" not in read(said, again=False, rest=True, judged=True)
    assert read(said, again=False, rest=True) is None


@pytest.mark.parametrize("said", ["We are done here.", "C'est fini.", "Todo está hecho.", "全部搞定"])
def test_other_words_are_for_who_judges_once_no_better_answer_is_asked_for(said: str) -> None:
    assert read(said, rest=True, judged=True) is None
    assert read(said, rest=True, judged=True, last=True) == {"steps": [], "reasoning": said}
    assert read(said, rest=True, last=True) == {"steps": [], "cannot": said}
    assert read(said, judged=True, last=True) is None, "where all of it is to be planned, it says nothing"


@pytest.mark.parametrize(
    "said",
    [
        "Sorry, no.", "No tool.", "All done apart from mailing Bob.", "Nothing is left that I could do.", "Nothing further is possible.",
        "Please tell me the address.", "Done, except for the mail.",
        "Alles erledigt außer der Mail.", "Ich kann keine Mail senden.", "Bitte die Adresse nennen.",
        "除了邮件，全部完成。", "无法发送邮件。", "没有邮件工具。", "Je ne peux pas.", "No puedo.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("judged", [True, False])
def test_words_with_a_reservation_are_no_end_but_why_nothing_is_planned(said: str, judged: bool) -> None:
    assert read(said, again=False, rest=True, judged=judged) is None
    found = read(said, rest=True, judged=judged, last=True)
    assert found == {"steps": [], "cannot": said}


@pytest.mark.parametrize("said", ["No.", "n/a" * 2_000, "...", "word " * 900])
def test_what_says_too_little_or_goes_on_and_on_is_no_reason_either(said: str) -> None:
    assert read(said, rest=True, last=True) is None


@pytest.mark.parametrize("judged", [True, False])
def test_a_question_in_another_field_is_no_word_that_nothing_is_left(judged: bool) -> None:
    for answer in (
        {"message": QUESTION},
        {"steps": [], "reasoning": f"All is done. {QUESTION}"},
        "All is done. OK?",
    ):
        assert read(answer, again=False, rest=True, judged=judged) is None
        asked = read(answer, rest=True, judged=judged)["ask_first"]
        assert asked == answer or QUESTION in asked


def plan_of(**fields: str) -> Plan:
    return Plan(plan_id="p", version=2, task_description="", steps=(), **fields)


@pytest.mark.parametrize(
    "question",
    [
        "Everything is planned; which of the two Anns is meant?",
        "All of the first part is done. Which account is the rest to be paid from?",
        "No further steps are possible: the card is blocked. Which card may I use?",
        "All is done, which Ann is meant?",
        "Which Ann is meant, or shall I do anything else?",
        "Which Ann is meant? Everything else is planned.",
        "Which account? Shall I do anything else?",
    ],
)
def test_a_question_is_one_whatever_it_says_beside_that_is_done(question: str) -> None:
    in_place = InPlace(rest=True, judged=True)
    assert not in_place.nothing_is_left(plan_of(ask_first=question))
    if question.endswith("?"):
        assert read({"steps": [], "message": question}, rest=True, judged=True)["ask_first"] == question


@pytest.mark.parametrize(
    "question",
    [
        "Shall I do anything else?",
        "All is done. Is anything further wanted?",
        "All is done, shall I do anything else?",
    ],
)
def test_whether_anything_else_is_wanted_is_no_question_for_a_person(question: str) -> None:
    assert InPlace(rest=True, judged=True).nothing_is_left(plan_of(ask_first=question))
    assert not InPlace(rest=True).nothing_is_left(plan_of(ask_first=question)), (
        "where nobody judges it is one"
    )


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("No further action is possible because the account is frozen", False),
        ("no more calls allowed by the bank today", False),
        ("every payment has to be carried out by a person with a signature", False),
        ("No further steps, since the card was declined.", False),
        ("No further steps are required because everything is done.", True),
        ("All steps are done already; there is nothing more to plan.", True),
    ],
)
def test_why_nothing_can_be_done_is_a_refusal_and_why_nothing_need_be_is_none(said: str, left: bool) -> None:
    assert InPlace(rest=True, judged=True).nothing_is_left(plan_of(cannot=said)) == left


@pytest.mark.parametrize("said", ["", "  \n"])
def test_an_empty_answer_is_asked_for_once_more_and_then_judged(said: str) -> None:
    assert read(said, again=False, rest=True, judged=True) is None
    assert read(said, rest=True, judged=True) == {"steps": []}
    assert read(said, rest=True) is None


@given(
    said=st.text(alphabet="abcdefgh ", min_size=1), name=st.sampled_from(["reasoning", "note", "error", "x"])
)
def test_no_word_of_an_answer_without_steps_is_lost(said: str, name: str) -> None:
    words = f"mail {said}".strip()
    by_steps = read({"steps": [], name: words}, rest=True)
    assert words in by_steps["cannot"]
    judged = read({"steps": [], name: words}, rest=True, judged=True)
    assert words in (judged.get("reasoning") or judged["cannot"])


@pytest.mark.parametrize(
    "answer",
    [
        {"steps": [], "status": "failed"},
        {"steps": [], "refusal": "not this"},
        {"steps": [], "more": "pay the other half"},
        {"steps": [], "cannot": "the account is closed"},
        {"steps": [], "ask_first": "Which account?"},
        "No.",
        "false",
        '"no"',
        {"steps": [], "actions": [STEP]},
        {"next": STEP},
        {"steps": [STEP]},
        '{"steps": [',
        "Here is what I would do next: pay Bob.",
        "Everything is done but the payment to Bob, whose account is closed.",
        {"steps": [], "cannot": "All is planned except what needs Ann's address."},
    ],
)
@pytest.mark.parametrize("judged", [True, False])
def test_what_says_something_else_is_not_taken_for_the_end(answer: Any, judged: bool) -> None:
    assert read(answer, again=False, rest=True, judged=judged) is None


@given(
    text=st.text(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["steps", "plan", "more", "cannot", "x"]), inner, max_size=3)
        ),
        max_leaves=8,
    ).map(json.dumps),
    rest=st.booleans(),
    judged=st.booleans(),
    again=st.booleans(),
)
def test_nothing_that_is_said_ever_becomes_a_step(text: str, rest: bool, judged: bool, again: bool) -> None:
    found = InPlace(rest=rest, judged=judged)(text, again=again, last=again)
    assert found is None or (
        found["steps"] == [] and found.keys() <= {"steps", "cannot", "ask_first", "reasoning"}
    )


@given(again=st.booleans(), rest=st.booleans(), words=st.text(max_size=40))
def test_an_answer_with_steps_stays_one(again: bool, rest: bool, words: str) -> None:
    steps = [STEP, {**STEP, "step_id": "b"}]
    assert read({"steps": steps, "reasoning": words}, again=again, rest=rest, judged=True) is None


@pytest.mark.parametrize(
    "said",
    [
        {"steps": [], "task_description": "Which is the largest planet?"},
        {"steps": [], "reasoning": "No tool is needed. The task: which is the largest planet?"},
        {"answer": "which is the LARGEST planet"},
        "The user asks: Which is the largest planet?",
    ],
)
def test_the_words_of_the_task_are_no_question_of_the_planner(said: Any) -> None:
    in_place = InPlace("Which is the largest planet?")
    assert in_place(said if isinstance(said, str) else json.dumps(said), again=True) is None
    assert isinstance(said, str) or not in_place.doubt(said, Plan(plan_id="p", steps=()))


def test_the_words_of_the_task_are_no_refusal_either() -> None:
    in_place = InPlace("Tell Bob: I can't help with that.")
    assert (
        in_place('{"steps": [], "task_description": "Tell Bob: I can\'t help with that."}', again=True)
        is None
    )
    assert in_place('{"steps": [], "reasoning": "I can\'t pay anybody."}', again=True) is not None


def test_an_apology_is_no_refusal() -> None:
    assert read("I'm sorry for the mistake. I will send the plan again.") is None
