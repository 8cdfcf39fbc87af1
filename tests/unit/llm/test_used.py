"""What an endpoint says of its usage is believed as far as the texts allow it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.limits.prices import tokens_in
from replan.core.types import Usage
from replan.llm.coming import MOST_TOKENS
from replan.llm.used import MOST_TIMES, counted
from replan.ports import ModelRequest, Turn

WORDS = "The plan pays the invoice of Ann, and tells her. "


def request(text: str = WORDS * 20) -> ModelRequest:
    return ModelRequest(
        role="planning",
        schema_name="execution_plan",
        json_schema={"type": "object", "description": "x" * 4_000},
        instructions="Plan.",
        turns=(Turn(role="user", text=text),),
    )


def told(input_tokens: int = 250, output_tokens: int = 250) -> Usage:
    return Usage(llm_calls=1, input_tokens=input_tokens, output_tokens=output_tokens)


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (WORDS * 20, told()),
        (WORDS * 20, told(input_tokens=1_500)),
        ("{}", told(output_tokens=90_000)),
        ('{\n' + " " * 40_000 + "}", told(output_tokens=400)),
        ("-" * 40_000, told(output_tokens=3_000)),
        ("计划支付发票。" * 200, told(output_tokens=1_000)),
        (WORDS, told(input_tokens=60_000, output_tokens=10)),
    ],
    ids=["as it is", "with the schema", "thoughts that are not shown", "indents", "rulers", "Chinese", "a long prompt of its own"],
)  # fmt: skip
def test_what_can_be_is_believed(said: str, usage: Usage) -> None:
    assert counted(usage, request(), [said]) == (usage, "")


@pytest.mark.parametrize(
    ("usage", "because"),
    [
        (told(output_tokens=0), "untold"),
        (told(output_tokens=1), "impossible"),
        (told(output_tokens=-5), "impossible"),
        (told(output_tokens=50_000_000), "impossible"),
    ],
)
def test_an_answer_is_estimated_where_what_is_told_of_it_cannot_be(usage: Usage, because: str) -> None:
    text = WORDS * 20
    found = counted(usage, request(), [text])
    assert found == (told(output_tokens=tokens_in([text])), because)


@pytest.mark.parametrize("tokens", [0, 1, 90_000_000])
def test_so_is_a_request(tokens: int) -> None:
    found = counted(told(input_tokens=tokens), request(), [WORDS * 20])
    assert found.usage == told(input_tokens=request().tokens)


@given(
    said=st.lists(st.text(max_size=400), max_size=3),
    numbers=st.tuples(st.integers(-10, 10**12), st.integers(-10, 10**12)),
)
def test_no_number_escapes_a_limit_or_uses_one_up(said: list[str], numbers: tuple[int, int]) -> None:
    asked = request()
    usage = counted(told(*numbers), asked, said).usage
    about, words = tokens_in(said), tokens_in("".join(text.split()) for text in said)
    assert words // 4 <= usage.output_tokens <= max(MOST_TIMES * about, MOST_TOKENS)
    assert 0 < usage.input_tokens <= max(MOST_TIMES * asked.tokens, MOST_TOKENS)
    assert counted(usage, asked, said).usage == usage, "what is counted is believed"
