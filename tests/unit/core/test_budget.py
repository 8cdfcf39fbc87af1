from __future__ import annotations

from typing import Any

import pytest

from replan.core.limits.budget import COUNTED, Counted, Reached, left, limit_reached, limits, nearly_used
from replan.core.limits.policy import Budget
from replan.core.types import Usage


def words(reached: Reached | None) -> str:
    return reached.words if reached is not None else ""


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
    assert words(limit_reached(Budget(**budget), Usage(**usage), what=what)) == limit


def test_rounds_are_counted_by_the_caller() -> None:
    assert limit_reached(Budget(max_rounds=3), Usage(), what="round", rounds=2) is None
    assert limit_reached(Budget(max_rounds=3), Usage(), what="round", rounds=3) == ("max_rounds", 3)


EACH = pytest.mark.parametrize("counted", COUNTED, ids=lambda one: one.name)
USED = Usage(llm_calls=5, tool_calls=5, input_tokens=2, output_tokens=3, cost_usd=5.0)


def test_every_field_of_a_budget_is_counted_and_nothing_else() -> None:
    assert [one.name for one in COUNTED] == [
        name for name in Budget.model_fields if name != "task_timeout_secs"
    ] + ["task_timeout_secs"]
    assert len({one.words for one in COUNTED}) == len(COUNTED)


@EACH
def test_what_is_counted_is_told_warned_of_and_forbids_one_more(counted: Counted) -> None:
    budget = Budget(**{"task_timeout_secs": None, counted.name: 6})
    (limit,) = limits(budget, USED, rounds=5, secs=5.0)
    assert limit == (counted.name, counted.words, 5, 6)
    assert left(budget, USED, rounds=5, secs=5.0) == f"1 of 6 {counted.words}"
    assert nearly_used(budget, USED, rounds=5, secs=5.0) == [limit]
    at_its_end = budget.model_copy(update={counted.name: 5})
    for what in ("llm", "tool", "round"):
        assert limit_reached(budget, USED, what=what, rounds=5) is None
        reached = limit_reached(at_its_end, USED, what=what, rounds=5)
        assert words(reached) == (f"{counted.name} = 5" if what == counted.asked_before else "")


@EACH
def test_what_is_not_used_is_not_told_as_nearly_used(counted: Counted) -> None:
    budget = Budget(**{"task_timeout_secs": None, counted.name: 6})
    assert nearly_used(budget, Usage(), rounds=0, secs=0) == []
    assert left(budget, Usage(), rounds=0, secs=0) == f"6 of 6 {counted.words}"


@pytest.mark.parametrize(("name", "field"), [("max_tokens", "input_tokens"), ("max_cost_usd", "cost_usd")])
def test_what_is_known_of_a_model_call_beforehand_has_to_fit(name: str, field: str) -> None:
    budget = Budget(**{name: 6})
    assert limit_reached(budget, USED, what="llm", asked=Usage(**{field: 1})) is None
    assert limit_reached(budget, USED, what="llm", asked=Usage(**{field: 2})) == (name, 6)
