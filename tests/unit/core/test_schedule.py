"""How long steps are thought to take: read from the plan where it says so, guessed from the others where not."""

from __future__ import annotations

from typing import Any

import pytest
from histories import OPENED, planned, state_of

from replan.core.plan.read import read_plan
from replan.core.state.schedule import expected_secs
from replan.core.types import Step


def expected(*secs: float | None) -> list[float] | None:
    """What the steps of a plan with these estimates are expected to take."""
    steps = [Step(step_id=f"s{n}", tool="t", estimated_secs=one) for n, one in enumerate(secs)]
    found = expected_secs(state_of([*OPENED, planned(*steps)]))
    if found is None:
        return None
    assert list(found) == [step.step_id for step in steps]
    return list(found.values())


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        pytest.param((), None, id="no steps"),
        pytest.param((None, None), None, id="nobody said"),
        pytest.param((3.0, 0.0, 5.5), [3.0, 0.0, 5.5], id="all said"),
        pytest.param(
            (None, 2.0, 100.0, None, 4.0), [4.0, 2.0, 100.0, 4.0, 4.0], id="the median of an odd count"
        ),
        pytest.param((2.0, None, 6.0), [2.0, 4.0, 6.0], id="between the two in the middle"),
        pytest.param((None, 7.0), [7.0, 7.0], id="one for all"),
        pytest.param((0.0, None, 0.0), None, id="nothing but zeros says nothing"),
    ],
)
def test_a_step_without_an_estimate_takes_the_median_of_the_others(
    said: tuple[float | None, ...], taken: list[float] | None
) -> None:
    assert expected(*said) == taken


def read(**fields: Any) -> float | None:
    answer = {"steps": [{"step_id": "s", "tool": "t", **fields}]}
    return read_plan(answer, plan_id="p").steps[0].estimated_secs


@pytest.mark.parametrize(
    ("given", "secs"),
    [
        (2.5, 2.5),
        (90, 90.0),
        (0, 0.0),
        ("12.5", 12.5),
        (" 60 ", 60.0),
        ("1e3", 1000.0),
        (None, None),
        (-1, None),
        ("-0.5", None),
        ("", None),
        ("about a minute", None),
        ("5m", None),
        ("nan", None),
        ("inf", None),
        (10**400, None),
        (True, None),
        ([5], None),
        ({"secs": 5}, None),
    ],
)
def test_an_estimate_is_read_and_what_is_none_is_ignored(given: Any, secs: float | None) -> None:
    assert read(estimated_secs=given) == secs


@pytest.mark.parametrize("name", ["estimated_secs", "estimatedSecs", "estimated_duration", "duration"])
def test_an_estimate_is_known_by_its_other_names(name: str) -> None:
    assert read(**{name: "7"}) == 7.0


def test_an_estimate_by_its_own_name_counts_before_another() -> None:
    assert read(duration=1, estimated_secs=2) == read(estimated_secs=2, duration=1) == 2.0


def test_nothing_said_is_no_estimate() -> None:
    assert read() is None
