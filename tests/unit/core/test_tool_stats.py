"""Statistics of tools: they add up, whatever was counted where."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.tools.stats import ToolStats, warning
from replan.core.types import Fault

REFUSED = Fault(category="external_error", kind="refused", message="nobody listens at port 4711")
CALLS = st.lists(
    st.tuples(st.floats(1e-5, 1e4), st.sampled_from([None, None, REFUSED])), min_size=0, max_size=80
)


def counted(calls: list[tuple[float, Fault | None]]) -> ToolStats:
    stats = ToolStats()
    for secs, fault in calls:
        stats.add(secs, fault)
    return stats


@given(CALLS, CALLS)
def test_counting_apart_and_merging_is_counting_together(
    one: list[tuple[float, Fault | None]], two: list[tuple[float, Fault | None]]
) -> None:
    merged = counted(one)
    merged.merge(counted(two))
    assert merged.to_json() == counted(one + two).to_json()


@given(CALLS)
def test_what_is_stored_reads_back(calls: list[tuple[float, Fault | None]]) -> None:
    stats = counted(calls)
    assert ToolStats.from_json(json.loads(json.dumps(stats.to_json()))).to_json() == stats.to_json()


@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_off_by_a_tenth_at_most(secs: list[float], q: float) -> None:
    found = counted([(each, None) for each in secs]).quantile(q)
    exact = sorted(secs)[max(0, -(-int(q * 1000) * len(secs) // 1000) - 1)]
    assert found == pytest.approx(exact, rel=0.1)


def test_failures_have_no_share_in_the_times() -> None:
    stats = counted([(1.0, None), (60.0, REFUSED), (60.0, REFUSED)])
    assert stats.quantile(0.95) == pytest.approx(1.0, rel=0.1)
    assert stats.success_rate == pytest.approx(1 / 3)
    assert ToolStats().success_rate is None
    assert ToolStats().quantile(0.5) is None


def test_errors_that_differ_in_numbers_only_are_one() -> None:
    stats = ToolStats()
    for port in range(500):
        stats.add(0.1, REFUSED.model_copy(update={"message": f"nobody listens at port {port}"}))
        stats.add(0.1, REFUSED.model_copy(update={"message": f"no host {'abcdefghij'[port % 10] * 3}"}))
    assert stats.common_errors(1) == [("refused: nobody listens at port #", 500)]
    assert len(stats.errors) == 11


def test_many_different_errors_do_not_pile_up() -> None:
    stats = ToolStats()
    for number in range(2_000):
        letters = "".join(chr(97 + int(digit)) for digit in str(number))
        stats.add(0.1, REFUSED.model_copy(update={"message": letters}))
    assert len(stats.errors) <= 80
    assert stats.failures == 2_000


def test_only_a_record_that_tells_something_is_a_warning() -> None:
    assert warning(None) == ""
    assert warning(counted([(1.0, REFUSED)] * 4)) == ""
    assert warning(counted([(1.0, None)] * 40 + [(1.0, REFUSED)] * 5)) == ""
    told = warning(counted([(1.0, None)] * 6 + [(1.0, REFUSED)] * 6))
    assert told == "failed 6 of its last 12 calls, mostly with: refused"
    mended = counted([(1.0, REFUSED)] * 500 + [(1.0, None)] * 50)
    assert warning(mended) == "", "what was long ago is held against nobody"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param({"calls": -1}, id="fewer than none"),
        pytest.param({"calls": 2, "failures": 3}, id="more failures than calls"),
        pytest.param({"durations": {"99999": 1}}, id="a time that no number holds"),
        pytest.param({"errors": {"x": 10**30}}, id="more than can be counted"),
    ],
)
def test_numbers_that_no_counting_comes_to_are_refused(spoilt: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"counts|long"):
        ToolStats.from_json({**counted([(1.0, None)]).to_json(), **spoilt})
