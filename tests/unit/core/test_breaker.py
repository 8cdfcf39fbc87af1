"""The circuit breaker: when it lets callers through, whoever tries at the same time and whenever they tell how it went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.limits.breaker import Breaker, Try


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.sampled_from(["ok", "fail", "abandon", "tick"]), max_size=60), st.integers(1, 4))
def test_it_is_open_exactly_after_enough_failures_and_until_its_rest_is_over(
    events: list[str], threshold: int
) -> None:
    time = Time()
    breaker = Breaker(threshold=threshold, cool_down_secs=10, now=time)
    failures, opened = 0, None  # the model: failures in a row, and when it opened
    for event in events:
        time.now += 4 if event == "tick" else 0
        if event == "tick":
            continue
        tried = breaker.allow()
        assert (tried is not None) == (opened is None or time.now >= opened + 10)
        assert breaker.is_closed == (opened is None)
        if tried is None:
            assert breaker.wait_secs > 0
            continue
        if opened is not None:
            assert breaker.allow() is None, "one try at a time while half open"
        if event == "ok":
            tried.succeeded()
            failures, opened = 0, None
        elif event == "abandon":
            tried.abandoned()
        else:
            tried.failed()
            failures += 1
            if opened is not None or failures >= threshold:
                opened = time.now


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "ok", "fail", "abandon", "tick"]), st.integers(0, 9)), max_size=80
    ),
    st.integers(1, 3),
)
def test_with_any_number_at_a_time_one_alone_tries_while_it_is_half_open(
    events: list[tuple[str, int]], threshold: int
) -> None:
    time = Time()
    breaker = Breaker(threshold=threshold, cool_down_secs=10, longest_secs=40, now=time)
    under_way: list[tuple[Try, bool]] = []  # and whether it was let through while the breaker was open
    for event, number in events:
        if event == "tick":
            time.now += number
            continue
        if event == "begin":
            was_closed, wait = breaker.is_closed, breaker.wait_secs
            tried = breaker.allow()
            if was_closed:
                assert tried is not None
            if tried is not None:
                assert was_closed or wait == 0
                under_way.append((tried, not was_closed))
        elif under_way:
            tried, probe = under_way.pop(number % len(under_way))
            before = breaker.is_closed, breaker.wait_secs
            {"ok": tried.succeeded, "fail": tried.failed, "abandon": tried.abandoned}[event]()
            if not probe and not before[0]:
                assert (breaker.is_closed, breaker.wait_secs) == before, "an old try says nothing of now"
        if not breaker.is_closed:
            assert sum(probe for _, probe in under_way) <= 1


def test_each_failure_while_it_is_half_open_doubles_the_rest_up_to_the_longest() -> None:
    time = Time()
    breaker = Breaker(threshold=1, cool_down_secs=2, longest_secs=9, now=time)
    rests = []
    for _ in range(4):
        tried = breaker.allow()
        assert tried is not None
        tried.failed()
        rests.append(breaker.wait_secs)
        time.now += breaker.wait_secs
    assert rests == [2, 4, 8, 9]
    tried = breaker.allow()
    assert tried is not None
    tried.succeeded()
    again = breaker.allow()
    assert again is not None
    again.failed()
    assert breaker.wait_secs == 2


def test_tripped_it_is_open_whatever_becomes_of_the_tries_that_are_under_way() -> None:
    time = Time()
    breaker = Breaker(cool_down_secs=2, now=time)
    before = breaker.allow()
    assert before is not None
    breaker.trip()
    before.succeeded()
    assert (breaker.is_closed, breaker.allow(), breaker.wait_secs) == (False, None, 2)
    time.now = 2
    probe = breaker.allow()
    assert probe is not None
    breaker.trip()
    probe.succeeded()
    assert breaker.allow() is None
    time.now = 4
    last = breaker.allow()
    assert last is not None
    last.succeeded()
    assert breaker.is_closed


def test_the_end_of_a_try_counts_once() -> None:
    breaker = Breaker(threshold=2)
    tried = breaker.allow()
    assert tried is not None
    tried.failed()
    tried.failed()
    assert breaker.is_closed


def test_a_threshold_has_to_be_one_at_least() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Breaker(threshold=0)
