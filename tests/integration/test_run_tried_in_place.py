"""What was tried in vain in place of another effect is owed no more once that one was had itself; what was another effect still is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from run_tasks import step
from test_run_left_out import BY_STEPS_AND_MODEL
from test_run_recovery import overall
from test_run_very_effects import BOSS, MORE, Bank, pays

AGAIN = overall(True, replanning_strategy={"type": "full_replan", "step_id": None, "reason": "another way"})


def each(name: str, *whom: str) -> dict[str, Any]:
    return step(name, "pay", parameters={"to": "${item}"}, for_each=list(whom))


def noted(*plans: list[Any], more: str = "") -> list[tuple[list[Any], str]]:
    """Each plan with a note to somebody else, so that none is the same as one before."""
    return [
        ([*one, {**BOSS, "step_id": f"m{n}", "parameters": {"to": f"boss {n}"}}], "" if n else more)
        for n, one in enumerate(plans)
    ]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("plans", "closed", "succeeds"),
    [
        pytest.param([[pays("a", "Ann")], [pays("b", "Ann2")], [pays("c", "Ann")]], {"Ann": 1, "Ann2": 1}, True, id="there and back"),
        pytest.param([[pays("a", "Ann")], [pays("b", "Ann2")], [pays("c", "Ann3")], [pays("d", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Ann3": 1}, True, id="by way of two"),
        pytest.param([[pays("a", "Ann")], [pays("b", "Ann2")], [pays("c", "Ann")], [pays("d", "Ann2")]],
                     {"Ann": 2, "Ann2": 1}, True, id="there and back and there"),
        pytest.param([[pays("a", "Ann"), pays("x", "Bob")], [pays("b", "Ann2"), pays("y", "Bob2")], [pays("c", "Ann"), pays("z", "Bob")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1, "Bob2": 1}, True, id="two at a time"),
        pytest.param([[each("a", "Ann", "Bob")], [each("b", "Ann2", "Bob2")], [each("c", "Ann", "Bob")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1, "Bob2": 1}, True, id="lists"),
        pytest.param([[each("a", "Ann", "Bob")], [each("a", "Ann2", "Bob2")], [each("a", "Ann", "Bob")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1, "Bob2": 1}, True, id="a list under its own id"),
        pytest.param([[pays("a", "Ann"), pays("x", "Bob")], [pays("b", "Ann2"), pays("y", "Bob2")], [pays("c", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1, "Bob2": 1}, False, id="one of two"),
        pytest.param([[pays("a", "Ann")], [pays("b", "Ann2"), pays("y", "Bob")], [pays("c", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1}, False, id="another one beside it"),
        pytest.param([[each("a", "Ann", "Bob")], [pays("b", "Ann2")], [pays("c", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1}, False, id="one of a list"),
        pytest.param([[each("a", "Ann", "Bob")], [each("b", "Ann2", "Bob2")], [each("c", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Bob": 1, "Bob2": 1}, False, id="one of two lists"),
        pytest.param([[pays("a", "Ann")], [each("b", "Ann2", "Eve")], [pays("c", "Ann")]],
                     {"Ann": 1, "Ann2": 1, "Eve": 1}, False, id="a longer list in its place"),
    ],
)  # fmt: skip
def test_an_effect_that_was_had_itself_stands_for_what_was_tried_in_its_place(
    plans: list[list[Any]], closed: dict[str, int], succeeds: bool, way: dict[str, Any]
) -> None:
    bank = Bank(closed=dict(closed))
    ran = bank.run(*noted(*plans), anew=AGAIN, **way)
    assert ran.result.is_success == succeeds, ran.result.reason
    assert max(Counter(bank.paid).values()) == 1


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("says_so", [True, False])
def test_after_a_plan_with_more_it_is_by_the_word_of_the_plan(says_so: bool, way: dict[str, Any]) -> None:
    bank = Bank(closed={"Ann": 1, "Ann2": 1})
    second = {**pays("b", "Ann2"), **({"instead_of": ["a"]} if says_so else {})}
    plans = noted([pays("a", "Ann")], [second], [pays("c", "Ann")], more=MORE)
    assert bank.run(*plans, anew=AGAIN, **way).result.is_success == says_so
    assert Counter(bank.paid) == Counter(["Ann"])
