"""What a model says beside a call, or by another call, is a part of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from replan.core.data.taken_back import takes_back
from replan.llm.forms import text_of
from replan.reasoning.prompting.ask import Violations, understand

PLAN: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"amount": 5}}]}
TEXT = json.dumps(PLAN)


def call(arguments: Any = TEXT, name: str = "execution_plan") -> ToolCallPart:
    return ToolCallPart(name, arguments)


def read(*parts: Any) -> Any:
    return understand(text_of(ModelResponse(parts=list(parts))), ("steps",), lambda answer: answer)


@pytest.mark.parametrize("arguments", [TEXT, PLAN])
@pytest.mark.parametrize(
    "beside", [[], [TextPart(" \n")], [ThinkingPart("I must not")], [TextPart("Here is the plan:")]]
)
@pytest.mark.parametrize("name", ["execution_plan", "final_answer", "submit_plan", "json"])
def test_a_call_alone_is_the_answer(arguments: Any, beside: list[Any], name: str) -> None:
    assert read(*beside, call(arguments, name)) == PLAN


def test_words_beside_a_call_are_said_around_it() -> None:
    words = "I must not run this. I decline; the call below only shows what was asked."
    text = text_of(ModelResponse(parts=[TextPart(words), call()]))
    assert text == f"{words}\n{TEXT}"
    assert takes_back(words)
    assert text_of(ModelResponse(parts=[call(), TextPart("No.")])) == f"{TEXT}\nNo."


def test_two_calls_that_say_two_things_are_no_answer() -> None:
    no = {"steps": [], "cannot": "on second thought: no"}
    for calls in ([call(), call(no)], [call(no), call()]):
        with pytest.raises(Violations, match="several different"):
            read(*calls)
    assert read(call(), call()) == PLAN


@pytest.mark.parametrize(
    "name", ["refuse", "rejected_plan", "tool_response", "tool", "bad_plan", "previousPlan"]
)
def test_a_call_of_something_else_is_no_answer(name: str) -> None:
    """Where a plan was wanted it is one call of a tool of that name; nobody has one, and that is told."""
    said = json.dumps({"name": name, "arguments": PLAN})
    for found in (read(call(name=name)), understand(said, ("steps",), lambda answer: answer)):
        assert [step["tool"] for step in found["steps"]] == [name]
    with pytest.raises(Violations, match="no 'is_successful'"):
        understand(said.replace("steps", "is_successful"), ("is_successful",), lambda answer: answer)


def test_a_tool_that_is_called_in_place_of_a_plan_is_a_plan_of_that_call() -> None:
    assert read(call({"amount": 5}, "pay"))["steps"][0]["tool"] == "pay"
