"""What a tenant may use, in numbers: rates by a token bucket, and the lower of two limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.config.sections import Limits
from replan.core.tools.rules import Rate
from replan.errors import InputError
from replan.run.access.requests import SubmitOptions
from replan.run.access.tenants.limits import Bucket, checked_limits, limits_of, lowered

RATES = st.builds(Rate, st.integers(1, 20), st.floats(0.1, 60))
GAPS = st.lists(st.floats(0, 10), max_size=200)


@given(RATES, GAPS)
def test_no_stretch_of_time_has_more_than_the_bucket_and_what_came_back(
    rate: Rate, gaps: list[float]
) -> None:
    bucket, now, taken = Bucket(rate, 0.0), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now) is None:
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            allowed = rate.calls + (taken[last] - taken[first]) * rate.calls / rate.secs
            assert last - first + 1 <= allowed + 1e-6


@given(RATES, GAPS)
def test_whoever_comes_again_when_told_is_let_in_and_not_a_moment_sooner(
    rate: Rate, gaps: list[float]
) -> None:
    bucket, now = Bucket(rate, 0.0), 0.0
    for gap in gaps:
        now += gap
        wait = bucket.take(now)
        if wait is not None:
            assert 0 < wait <= rate.secs / rate.calls + 1e-9
            if wait > 1e-3:
                assert bucket.take(now + wait * 0.99) is not None
            now += wait
            assert bucket.take(now + 1e-9) is None


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    bucket = Bucket(Rate(1, 10), 100.0)
    assert bucket.take(100.0) is None
    assert bucket.take(50.0) == pytest.approx(10)
    assert bucket.take(109.9) is not None
    assert bucket.take(110.0) is None


AMOUNT = st.none() | st.floats(0, 1e6)
TOKENS = st.none() | st.integers(0, 10**9)


@given(AMOUNT, TOKENS, AMOUNT, TOKENS)
def test_a_caller_may_ask_for_less_and_never_gets_more(
    cost: float | None, tokens: int | None, most_cost: float | None, most_tokens: int | None
) -> None:
    limits = Limits(max_cost_usd_per_task=most_cost, max_tokens_per_task=most_tokens)
    found = lowered(SubmitOptions(max_cost_usd=cost, max_tokens=tokens, evaluation="steps"), limits)
    assert found.evaluation == "steps"
    for value, asked, most in (
        (found.max_cost_usd, cost, most_cost),
        (found.max_tokens, tokens, most_tokens),
    ):
        given_ = [one for one in (asked, most) if one is not None]
        assert value == (min(given_) if given_ else None)
    assert lowered(found, limits) == found


def test_options_that_are_within_stay_just_as_they_were_sent() -> None:
    options = SubmitOptions(max_tokens=5)
    assert lowered(options, Limits(max_tokens_per_task=10)) is options


def test_a_tenants_own_limits_lie_over_those_of_the_configuration() -> None:
    defaults = Limits(max_unfinished_tasks=10, submits="1/second", max_tokens_per_day=5)
    own = checked_limits({"max_unfinished_tasks": 20, "submits": None})
    found = limits_of(defaults, own)
    assert (found.max_unfinished_tasks, found.submits, found.max_tokens_per_day) == (20, None, 5)
    assert limits_of(defaults, None) is defaults
    assert limits_of(defaults, {}) is defaults


@pytest.mark.parametrize(
    "own", [{"max_unfinished_tasks": -1}, {"submits": "many"}, {"max_cost_usd_per_day": float("inf")}, {"tasks": 1}, {"max_tokens_per_day": "5"}]
)  # fmt: skip
def test_limits_that_cannot_be_are_told_by_name(own: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(own))):
        checked_limits(own)  # type: ignore[arg-type]
