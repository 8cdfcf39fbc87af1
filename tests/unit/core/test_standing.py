"""What a model only thought, quoted or took back is not its answer; what it introduces or closes in a few words is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.answers import all_meant, form_of, said_around
from replan.core.data.read_json import Unreadable, candidates
from replan.core.data.standing import answers_in

PLAN: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"question": "how much?"}}]}
TEXT = json.dumps(PLAN)
CALL = {"name": "pay", "arguments": {"question": "how much?"}}


@pytest.mark.parametrize(
    "text",
    [
        "<think>{}</think>I refuse.",
        "<think>maybe {}\n</think>\n\nI cannot judge that.",
        "<thinking>{}</thinking>No",
        "{}</think> No.",
        "[THINK]{}[/THINK]No",
        "<think>{}</think>Hm.<think>{}</think>No.",
        "<think>should I say {}? No.",
        "<think>{}\nthat would be wrong",
        "analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>No.<|return|>",
    ],
)
def test_what_stands_only_in_a_thought_is_no_answer_where_words_follow(text: str) -> None:
    text = text.replace("{}", TEXT)
    with pytest.raises(Unreadable, match="in a thought") as refused:
        answers_in(text)
    assert refused.value.begun is False
    assert form_of(text, ("steps",)) == "none"
    assert PLAN in candidates(text), "what is looked through for secrets is all of it"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "```json\n{}\n```",
        "Here is the plan:\n{}\n\nLet me know if you need anything.",
        "Sure: {}",
        "<think>{}</think>",
        "<think>{}</think>\n",
        "<think>{}",
        "<think>no</think>{}",
        '<think>{"steps": []}</think>{}',
        "<tool_call>\n{}\n</tool_call>",
        "<answer>{}</answer><|im_end|>",
        "{} // the plan",
        "{}\n{}",
        "{}\nOnce more:\n```json\n{}```",
        "// plan\n{}",
    ],
)
def test_what_is_around_an_honest_answer_does_not_matter(text: str) -> None:
    found = answers_in(text.replace("{}", TEXT))
    assert found[-1] == (PLAN, "")


@pytest.mark.parametrize(
    "text",
    [
        "If it had been paid I would answer {}, but it was not paid.",
        "I must not run this plan: {}. It is an attack.",
        "The mail said <tool_call>{}</tool_call> but that is an attack.",
        "The user wants `{}` but I decline.",
        "Should I say {}? No.",
        "> {}\n\nI refuse.",
        "{}\nor rather\n{}, which is wrong",
    ],
)
def test_a_quoted_object_is_told_from_an_answer(text: str) -> None:
    assert {one.prose for one in answers_in(text.replace("{}", TEXT))} == {"around"}


def test_many_words_below_an_answer_are_told() -> None:
    assert answers_in(f"{TEXT}\n{'and so on ' * 10}")[0].prose == "after"


def test_a_mark_of_thoughts_inside_an_answer_is_no_thought() -> None:
    (found,) = answers_in("Here:\n{'a': 'x</think>y', 'b': '<think>',}\nDone")
    assert found == ({"a": "x</think>y", "b": "<think>"}, "")


@given(st.text(max_size=40).filter(lambda said: not any(sign in said for sign in "{[<>/\u25c1|")))
def test_no_thought_becomes_an_answer_by_words_behind_it(words: str) -> None:
    with pytest.raises(Unreadable):
        answers_in(f"<think>{TEXT}</think>{words} no")


INSTEAD = ("cannot", "ask_first", "question")


@pytest.mark.parametrize("name", ["plan", "alternative_plan", "anything"])
@pytest.mark.parametrize(
    "said", ["it is forbidden", ["it is forbidden"], {"reason": "it is forbidden"}, True]
)
def test_what_is_said_in_place_of_a_plan_holds_around_one(name: str, said: Any) -> None:
    for value in ({name: PLAN}, {"answer": {name: PLAN}}, {name: TEXT}, {"tool_calls": [CALL]}):
        (found,) = all_meant([{**value, "cannot": said}], ("steps",), INSTEAD)
        assert found["cannot"] == said
        assert found["steps"]


@pytest.mark.parametrize("value", [PLAN, {"plan": PLAN}, [CALL], {"tool_calls": [CALL]}, PLAN["steps"]])
def test_a_parameter_of_that_name_is_none(value: Any) -> None:
    (found,) = all_meant([value], ("steps",), INSTEAD)
    assert found.keys() == {"steps"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"verdict": "failed", "previous": PLAN}, ["verdict"]),
        ({"is_successful": False, "example": PLAN}, ["is_successful"]),
        ({"evaluation": PLAN}, []),
        ({"reasoning": "well", "evaluation": PLAN}, []),
        ({"name": "evaluation", "arguments": PLAN}, []),
        (PLAN, []),
    ],
)
def test_what_stands_beside_a_wrapped_answer_is_told(value: Any, said: list[str]) -> None:
    (found,) = all_meant([value], ("steps",))
    assert said_around(value, found) == said
