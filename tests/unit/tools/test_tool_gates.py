"""The limits of one tool, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core.tools.rules import Rate
from replan.testing import virtual_time
from replan.tools.catalog.limiter import Gate


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return virtual_time(main)


async def begun(gate: Gate, calls: list[tuple[float, float]]) -> tuple[list[float], int]:
    """When calls began that come at these times and take so long, and how many ran at once at most."""
    loop = asyncio.get_running_loop()
    zero = loop.time()
    starts: list[float] = []
    inside = most = 0

    async def one(at: float, secs: float) -> None:
        nonlocal inside, most
        await asyncio.sleep(at)
        await gate.enter()
        gate.begin()
        starts.append(loop.time() - zero)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(secs)
        inside -= 1
        gate.leave()

    await asyncio.gather(*(one(at, secs) for at, secs in calls))
    return starts, most


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 20), st.floats(0, 5)), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0.5, 10),
)
def test_no_stretch_of_time_has_more_calls_than_the_rate(
    calls: list[tuple[float, float]], side_by_side: int, count: int, secs: float
) -> None:
    starts, most = run(begun(Gate(side_by_side, Rate(count, secs)), calls))
    assert len(starts) == len(calls)
    assert most <= side_by_side
    ordered = sorted(starts)
    for first, later in zip(ordered, ordered[count:], strict=False):
        assert later - first >= secs - 1e-6


def test_nobody_waits_longer_than_the_limits_ask_for() -> None:
    starts, _ = run(begun(Gate(None, Rate(2, 10)), [(0, 1)] * 6))
    assert starts == pytest.approx([0, 0, 10, 10, 20, 20], abs=0.01)
    starts, _ = run(begun(Gate(2), [(0, 3)] * 6))
    assert starts == pytest.approx([0, 0, 3, 3, 6, 6], abs=0.01)


def test_the_most_urgent_is_let_in_first() -> None:
    async def main() -> list[str]:
        gate, order = Gate(1), list[str]()
        assert gate.try_enter()
        assert not gate.try_enter()

        async def one(name: str, urgency: float) -> None:
            await gate.enter(urgency)
            order.append(name)
            gate.give_back()

        tasks = [asyncio.create_task(one(*each)) for each in [("low", 1), ("high", 9), ("low too", 1)]]
        await asyncio.sleep(0)
        gate.give_back()
        await asyncio.gather(*tasks)
        return order

    assert run(main()) == ["high", "low", "low too"]


def test_who_gives_up_takes_no_right_along() -> None:
    async def main() -> bool:
        gate = Gate(1)
        await gate.enter()
        waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        gate.give_back()  # the right goes to the second, which is called off in the same moment
        waiting[1].cancel()
        await asyncio.gather(*waiting[:2], return_exceptions=True)
        await waiting[2]
        gate.give_back()
        return gate.try_enter()

    assert run(main()) is True


def test_the_rate_counts_calls_when_they_are_made() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        gate, zero, starts = Gate(None, Rate(1, 10)), loop.time(), list[float]()
        assert gate.try_enter()

        async def one() -> None:
            await gate.enter()
            gate.begin()
            starts.append(loop.time() - zero)
            gate.leave()

        other = asyncio.create_task(one())
        await asyncio.sleep(9)  # let in, and held up by something else
        gate.begin()
        starts.append(loop.time() - zero)
        gate.leave()
        await other
        return starts

    assert run(main()) == pytest.approx([9, 19], abs=0.01)


def test_a_right_that_is_given_back_costs_nothing_of_the_rate() -> None:
    async def main() -> tuple[bool, bool]:
        gate = Gate(1, Rate(1, 1000))
        waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        gate.give_back()  # the right goes to the second, which is called off in the same moment
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        gate.begin()
        gate.leave()
        return waiting[1].cancelled(), gate.try_enter()

    assert run(main()) == (True, False)
