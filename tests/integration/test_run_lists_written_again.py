"""A list step that is written again under its own id with the items that it lacks: they are known by what they are, not by their place."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from run_tasks import step
from test_run_left_out import BY_STEPS_AND_MODEL
from test_run_recovery import overall
from test_run_very_effects import Bank, listed

ALL = ("Ann", "Bob", "Cid")
A_NEW_SESSION = overall(
    True,
    replanning_strategy={
        "type": "add_remediation_steps",
        "step_id": "p",
        "reason": "it has expired",
        "suggestions": ["a new session"],
    },
)
TOLD = step("m", "tell", "p", parameters={"to": "boss"})


def written_again(bank: Bank, *rests: tuple[str, ...], tool: str = "pay", **way: Any) -> Any:
    """The list of all, and plan by plan those that are paid over a session made anew."""
    plans = [listed(*whom, over=f"l{n}", tool=tool) for n, whom in enumerate(rests, 2)]
    first = [*listed(*ALL, over="l", tool=tool), TOLD]
    return bank.run((first, ""), *[(one, "") for one in plans], anew=A_NEW_SESSION, **way)


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("rest", [rest for count in (1, 2, 3) for rest in combinations(ALL, count)], ids=str)
def test_what_it_lacked_is_had_wherever_its_list_has_it_now(
    rest: tuple[str, ...], tool: str, way: dict[str, Any]
) -> None:
    bank = Bank(only={"s1": [who for who in ALL if who not in rest]})
    ran = written_again(bank, rest, tool=tool, **way)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(ALL)
    assert ran.model.calls.get("evaluation", 0) <= 1  # nothing is to be accounted for


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(("last", "succeeds"), [(("Cid",), True), (("Bob",), False)])
def test_what_fails_once_more_at_another_place_is_had_at_last(
    last: tuple[str, ...], succeeds: bool, way: dict[str, Any]
) -> None:
    bank = Bank(only={"s1": ["Ann"], "s2": ["Bob"]})
    assert written_again(bank, ("Bob", "Cid"), last, **way).result.is_success == succeeds
    assert max(Counter(bank.paid).values()) == 1


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("rest", [("Ann",), ("Cid",), ("Ann", "Cid")])
def test_what_the_list_had_already_stands_for_nothing_that_it_lacks(
    rest: tuple[str, ...], way: dict[str, Any]
) -> None:
    bank = Bank(only={"s1": ["Ann", "Cid"]})
    assert not written_again(bank, rest, **way).result.is_success
    assert max(Counter(bank.paid).values()) == 1
