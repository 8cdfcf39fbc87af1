"""What a model only thought, quoted or took back is not its answer; what it only introduces or closes is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.answers import all_meant, form_of
from replan.core.data.lead_ins import is_wrapper, more_than_introduces
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


HONEST = [
    "{}",
    "```json\n{}\n```",
    "```\n{}\n```",
    "~~~json\n{}\n~~~",
    "Here is the plan:\n{}\n\nLet me know if you need anything.",
    "Here's the plan:\n\n```json\n{}\n```",
    "Here is the JSON object:\n```json\n{}\n```",
    "Here is the execution plan in the requested format:\n{}",
    "Here is the corrected JSON object:\n{}",
    "Sure: {}",
    "Sure! Here's the execution plan for your task:\n\n```json\n{}\n```",
    "Certainly! Below is the JSON response:\n```json\n{}\n```\nI hope this helps!",
    "Of course. Here you go:\n{}",
    "Okay, here is a structured plan based on your request:\n{}",
    "Based on the task, here is the plan:\n{}",
    "I've created the following plan:\n```json\n{}\n```",
    "I have generated the execution plan as requested.\n\n{}",
    "The plan is as follows:\n{}",
    "My answer:\n{}",
    "Final answer: {}",
    "**Plan:**\n```json\n{}\n```",
    "## Execution Plan\n\n```json\n{}\n```",
    "### JSON Output\n\n{}",
    "# Plan\n{}\n---\nDone.",
    "{}\n\nPlease let me know if you would like any changes or further details.",
    "{}\n\nFeel free to ask if you have any questions!",
    "{}\nLet me know if there is anything else.",
    "{}\nThis is the complete plan for your task.",
    "Answer: Plan\n{}\nEnd of plan.",
    "<think>{}</think>",
    "<think>{}</think>\n",
    "<think>no, do not</think>{}",
    "<think>hm, maybe not</think>\nHere is the plan:\n{}",
    '<think>{"steps": []}</think>{}',
    "Do I have to refuse? No.</think>{}",
    "analysis<|message|>no, wait<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "<tool_call>\n{}\n</tool_call>",
    "<function=execution_plan>{}</function>",
    "[TOOL_CALL] {}",
    "<answer>{}</answer><|im_end|>",
    "<s>[INST]{}[/INST]</s>",
    "{} // the plan",
    "// plan\n{}",
    "{}\n{}",
    "{}\nOnce more:\n```json\n{}```".replace("Once more", "Here it is again").replace(" again", ""),
    "{}\n\nIs there anything else you would like me to do?",
    "assistantfinal{}",
    "\\boxed{}",
    "Sure! \U0001f60a Here's the plan:\r\n```json\r\n{}\r\n```\r\n",
    "Voici le plan :\n```json\n{}\n```",
    "Hier ist der Plan:\n{}",
    "Aquí está el plan:\n{}",
    "以下是计划：\n```json\n{}\n```",
]


@pytest.mark.parametrize("text", HONEST)
def test_what_is_around_an_honest_answer_does_not_matter(text: str) -> None:
    found = answers_in(text.replace("{}", TEXT))
    assert found[-1] == (PLAN, "", False)


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
        "{} but do not run this",
        '"{}" is what they want',
        "<tool_response>{}</tool_response>",
        "<mail>\n{}\n</mail>",
        "<untrusted content>{}</untrusted>",
        "Tool output:\n{}",
        "The tool's response was:\n```json\n{}\n```",
        "Example:\n{}",
        "Old plan:\n{}",
        "**Previous plan**\n\n{}",
        "## Rejected\n{}",
        "Here is the previous plan:\n```json\n{}\n```",
        "The previous evaluation said:\n{}",
        "Here is an example plan:\n{}",
        "<bad_plan>\n{}",
        "<TOOL_RESPONSE>\n{}\n</TOOL_RESPONSE>",
        "<Tool_Response>\n{}\n</tool_response>",
        "Hm.\n<untrusted_input>\n{}\n",
        "<|tool_response|>{}",
        "<｜tool▁output▁begin｜>{}<｜tool▁output▁end｜>",
        "<|observation|>\n{}",
        "[TOOL_RESULTS]\n{}\n[/TOOL_RESULTS]",
        "```tool_response\n{}\n```",
        "```rejected\n{}\n```",
        "No.\n```rejected\n{}\n```",
        "~~{}~~",
        "~~\n{}\n~~ (struck out)",
        "<del>{}</del>",
        "<strike>\n{}\n</strike>",
        "<!-- {} -->",
        "<!-- {}",
        "/* {} */",
        "// {}",
        'The mail says: "{}"',
    ],
)
def test_a_quoted_object_is_told_from_an_answer(text: str) -> None:
    assert {one.quoted for one in answers_in(text.replace("{}", TEXT))} == {True}


@pytest.mark.parametrize(
    "text",
    [
        "I refuse to run this plan:\n{}",
        "I refuse {}",
        "我不能执行这个计划：{}",
        "Ich werde diesen Plan nicht ausführen:\n```json\n{}\n```",
        "The mail asks for this:\n{}",
        "Dangerous plan:\n{}",
        "<tool_call>{}</tool_call>\nNo wait, do not do that.",
        "{}\n\nI would not do this.",
        "{}\nLet me know if I should run it.",
        "// do not run this\n{}",
        "❌ {}",
        "{} 👎",
        "<!-- rejected -->\n{}",
        "<think>I must not answer {}</think>",
        "<think>no: {}",
        "No!<think>hm</think>{}",
        "{}\n<think>that is wrong</think>",
        "{}\nThis plan first reads the mail.",
    ],
)
def test_words_that_may_take_an_answer_back_are_told(text: str) -> None:
    (found,) = answers_in(text.replace("{}", TEXT))
    assert found.words
    assert not found.quoted


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{}</tool_call>",
        "<|tool_call|>{}<|end|>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜>",
        "[TOOL_CALLS]{}",
        "<|im_start|>assistant\n{}<|im_end|>",
        "<s>{}</s>",
        "~~~json\n{}\n~~~\n",
        "```python\n{}\n```",
        "```{}```",
        "```execution_plan\n{}\n```",
        "<tool_response>It is open.</tool_response>\n<answer>{}</answer>",
        "I replaced the previous plan, since it failed:\n{}",
        "~~Old:~~ none\n{}",
        "<!-- the plan -->\n{}",
        "Pay <name> once:\n{}",
        "The previous plan failed. The new plan:\n{}",
    ],
)
def test_markup_that_only_wraps_or_is_over_marks_nothing(text: str) -> None:
    assert [one.quoted for one in answers_in(text.replace("{}", TEXT))] == [False]


@pytest.mark.parametrize(
    "said",
    [
        "Let me know if you would like me to make these calls.",
        "Let me know if you want me to use this plan.",
        "Please let me know if you would like changes first.",
        "If you need this plan, please let me know.",
        "Happy to use these tools if you want.",
        "The user has requested that this plan be created only after review.",
        "All steps have been completed.",
        "The task is done.",
        "Your plan was:",
        "I object to this:",
        "Review this plan first.",
        "I was given this plan in the request.",
    ],
)
def test_an_offer_and_what_is_said_of_a_plan_introduce_nothing(said: str) -> None:
    assert more_than_introduces(said)


@pytest.mark.parametrize(
    "said",
    [
        "Let me know if you need anything else.",
        "Let me know if you'd like any changes!",
        "Please let me know if you have any questions.",
        "Feel free to ask for other changes.",
        "I hope this helps!",
        "Happy to help with anything else.",
        "Based on the task, here is the complete plan:",
        "I have created the following plan:",
        "The plan is as follows:",
        "The final plan is below.",
    ],
)
def test_what_closes_or_introduces_still_does(said: str) -> None:
    assert not more_than_introduces(said)


SAID = [
    "cannot",
    "should",
    "not",
    "wrong",
    "mail",
    "attacker",
    "不",
    "example",
    "would",
    "refuse",
    "before",
    "illegal",
]


@given(st.sampled_from(HONEST), st.sampled_from(SAID), st.integers(0, 3))
def test_one_word_more_around_an_honest_answer_is_not_passed_over(text: str, word: str, where: int) -> None:
    """Wherever it is said: it is told, or the text has no answer any more, or it was only thought."""
    head, _, tail = text.partition("{}")
    pieces = [f"{word}. {head}", f"{head}\n{word}\n", f"\n{word} {tail}", f"{tail}\n{word}"]
    said = pieces[where] + "{}" + tail if where < 2 else head + "{}" + pieces[where]
    try:
        found = answers_in(said.replace("{}", TEXT))
    except Unreadable:
        return
    if not any(mark in text for mark in ("think", "message", "assistantfinal")):
        assert all(one.words for one in found)


def test_what_introduces_and_what_takes_back() -> None:
    assert not more_than_introduces("")
    assert not more_than_introduces("Step 1 of 2")
    assert more_than_introduces("Sure! The tool returned this:") == " The tool returned this"
    assert more_than_introduces("Here it is. Let me know if you need more: illegal") == " illegal"


@pytest.mark.parametrize(
    "name", ["plan", "execution_plan", "executionPlan", "final-plan", "Corrected Plan", "arguments", "toolCall", "my_plan"]
)  # fmt: skip
def test_some_names_only_wrap(name: str) -> None:
    assert is_wrapper(name)


@pytest.mark.parametrize(
    "name",
    ["bad_plan", "example", "rejected_plan", "previous_evaluation", "tool_response", "toolOutput", "alternative", "", "_", "mail"],
)  # fmt: skip
def test_any_other_name_says_what_it_holds(name: str) -> None:
    assert not is_wrapper(name)


@pytest.mark.parametrize(
    "comment", ["// do not run this: it is an attack\n", "/* I refuse */", "/** rejected **/"]
)
def test_a_comment_inside_an_object_is_said_around_it(comment: str) -> None:
    (found,) = answers_in(TEXT.replace("[", f"[ {comment}", 1))
    assert found.value == PLAN
    assert found.words
    (found,) = answers_in(
        TEXT.replace("[", "[ // the tools, then the steps\n", 1).replace("how much?", "// is it?")
    )
    assert not found.words


@pytest.mark.parametrize(
    "value",
    [
        {"role": "tool", "name": "get_page", "content": TEXT},
        {"role": "user", "content": TEXT},
        {"type": "tool_result", "content": TEXT},
        {"name": "example", "arguments": PLAN},
        {"name": "previous_plan", "arguments": PLAN},
        {"function": "previous_plan", "arguments": PLAN},
        {"function": "refuse", "arguments": json.dumps(PLAN)},
        {"tool_result": PLAN},
    ],
)
def test_what_somebody_else_has_said_is_no_answer(value: dict[str, Any]) -> None:
    (found,) = all_meant([value], ("is_successful", "steps"))
    assert found != PLAN


def test_a_mark_of_thoughts_inside_an_answer_is_no_thought() -> None:
    (found,) = answers_in("Here:\n{'a': 'x</think>y', 'b': '<think>',}\nDone")
    assert found == ({"a": "x</think>y", "b": "<think>"}, "", False)


@given(st.text(max_size=40).filter(lambda said: not any(sign in said for sign in "{[<>/\u25c1|")))
def test_no_thought_becomes_an_answer_by_words_behind_it(words: str) -> None:
    with pytest.raises(Unreadable):
        answers_in(f"<think>{TEXT}</think>{words} no")


@pytest.mark.parametrize("name", ["plan", "executionPlan", "final_plan"])
@pytest.mark.parametrize(
    "said", ["it is forbidden", ["it is forbidden"], {"reason": "it is forbidden"}, True]
)
@pytest.mark.parametrize("key", ["cannot", "ask_first", "status", "more"])
def test_what_is_said_around_a_plan_is_as_if_the_plan_said_it(name: str, said: Any, key: str) -> None:
    for value in (
        {name: PLAN},
        {"answer": {name: PLAN}},
        {name: TEXT},
        {"tool_calls": [CALL]},
        {name: [PLAN]},
    ):
        (found,) = all_meant([{**value, key: said}], ("steps",))
        assert found[key] == said
        assert found["steps"]
    assert all_meant([[PLAN, {key: said}]], ("steps",)) == [{**PLAN, key: said}]
    (found,) = all_meant([{name: {**PLAN, key: "else"}, key: said}], ("steps",))
    assert found == {**PLAN, key: "else", f"{key} (around it)": said}
    (found,) = all_meant([{name: {**PLAN, key: None}, key: said}], ("steps",))
    assert found == {**PLAN, key: said}


@pytest.mark.parametrize("value", [PLAN, {"plan": PLAN}, [CALL], {"tool_calls": [CALL]}, PLAN["steps"]])
def test_a_parameter_of_that_name_is_none(value: Any) -> None:
    (found,) = all_meant([value], ("steps",))
    assert found.keys() == {"steps"}


@pytest.mark.parametrize(
    "value",
    [
        {"bad_plan": PLAN},
        {"example": {"plan": PLAN}},
        {"plan": {"rejected": PLAN}},
        {"tool_output": TEXT},
        {"plan": f"{TEXT} but I refuse"},
        [PLAN, "do not run this"],
        [PLAN, ["illegal"]],
        {"plan": PLAN, "answer": {"steps": []}},
    ],
)
def test_what_is_inside_of_something_else_is_no_answer(value: Any) -> None:
    assert all_meant([value], ("steps",)) == [value]
    assert form_of(json.dumps(value), ("steps",)) in ("good", "none"), "asking in another way would not help"


@pytest.mark.parametrize(
    "value",
    [
        {"plan": PLAN},
        {"name": "execution_plan", "arguments": PLAN},
        {"id": "c1", "type": "function", "function": {"name": "execution_plan", "arguments": TEXT}},
        {"role": "assistant", "content": TEXT},
        [{"type": "tool_use", "id": "x", "name": "execution_plan", "input": PLAN}],
        {"plan": PLAN, "result": PLAN},
        {"plan": PLAN, "error": None, "warnings": []},
    ],
)
def test_a_wrapping_that_says_nothing_leaves_nothing(value: Any) -> None:
    assert all_meant([value], ("steps",)) == [PLAN]


@pytest.mark.parametrize("text", ["<think>{}", "<think>\n{}\n", "[THINK]{}", "Sure.\n<thinking>{}"])
def test_an_answer_in_a_thought_that_does_not_end_is_told_as_that(text: str) -> None:
    (one,) = answers_in(text.replace("{}", '{"a": 1}'))
    assert one.value == {"a": 1}
    assert "does not end" in one.words


@pytest.mark.parametrize("text", ["<think>hm</think>{}", "hm</think>{}", "{}<think>"])
def test_one_behind_a_thought_is_not(text: str) -> None:
    (one,) = answers_in(text.replace("{}", '{"a": 1}'))
    assert one.words == ""


@pytest.mark.parametrize("name", ["name", "function"])
def test_a_call_of_the_answer_by_its_name_is_the_answer(name: str) -> None:
    assert all_meant([{name: "execution_plan", "arguments": PLAN}], ("steps",)) == [PLAN]
    (told,) = all_meant([{name: "execution_plan", "arguments": PLAN, "approved": False}], ("steps",))
    assert told == {**PLAN, "approved": False}
