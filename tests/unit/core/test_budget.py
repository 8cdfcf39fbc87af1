from __future__ import annotations

from typing import Any

import pytest

from replan.core.limits.budget import in_digits, limit_reached
from replan.core.limits.policy import Budget
from replan.core.types import Usage


@pytest.mark.parametrize(
    ("budget", "usage", "what", "limit"),
    [
        pytest.param({}, {"llm_calls": 10**9}, "llm", "", id="unset is no limit"),
        pytest.param({"max_llm_calls": 0}, {}, "llm", "max_llm_calls = 0", id="0 means none"),
        pytest.param({"max_tokens": 0}, {}, "llm", "max_tokens = 0", id="0 tokens mean no call"),
        pytest.param({"max_cost_usd": 0}, {}, "llm", "max_cost_usd = 0", id="0 dollars mean no call"),
        pytest.param({"max_tool_calls": 0}, {}, "tool", "max_tool_calls = 0", id="0 tool calls"),
        pytest.param({"max_rounds": 0}, {}, "round", "max_rounds = 0", id="0 rounds"),
        pytest.param({"max_llm_calls": 2}, {"llm_calls": 1}, "llm", "", id="one more"),
        pytest.param({"max_llm_calls": 2}, {"llm_calls": 2}, "llm", "max_llm_calls = 2", id="at the limit"),
        pytest.param({"max_tokens": 10}, {"input_tokens": 6, "output_tokens": 4}, "llm", "max_tokens = 10", id="tokens"),
        pytest.param({"max_cost_usd": 0.5}, {"cost_usd": 0.4999}, "llm", "", id="nearly"),
        pytest.param({"max_cost_usd": 0.5}, {"cost_usd": 0.5}, "llm", "max_cost_usd = 0.5", id="dollars"),
        pytest.param({"max_llm_calls": 0}, {}, "tool", "", id="each limit binds its own kind"),
        pytest.param({"max_tool_calls": 0}, {}, "llm", "", id="tool limits do not bind models"),
    ],
)  # fmt: skip
def test_a_limit_is_asked_before_the_call(budget: Any, usage: Any, what: Any, limit: str) -> None:
    assert limit_reached(Budget(**budget), Usage(**usage), what=what) == limit


def test_rounds_are_counted_by_the_caller() -> None:
    assert limit_reached(Budget(max_rounds=3), Usage(), what="round", rounds=2) == ""
    assert limit_reached(Budget(max_rounds=3), Usage(), what="round", rounds=3) == "max_rounds = 3"


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0.25, "0.25"),
        (3, "3"),
        (999_999, "999999"),
        (1_000_000, "1000000"),
        (1_234_567, "1234567"),
        (2.5e9, "2500000000"),
    ],
)
def test_an_amount_is_told_in_digits_however_large(amount: float, told: str) -> None:
    assert in_digits(amount) == told
