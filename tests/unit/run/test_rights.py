"""A right to make a call goes back with the block or the task that has it, unless it is used."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.run.calls.rights import Right
from replan.tools.catalog.limiter import Gate

pytestmark = pytest.mark.anyio


def granted() -> tuple[Gate, Right]:
    gate, right = Gate(1), Right()
    assert gate.try_enter()
    right.granted(gate)
    return gate, right


def test_what_is_not_used_goes_back_at_the_end_of_the_block() -> None:
    gate, right = granted()
    with pytest.raises(ValueError, match="stopped"), right:
        raise ValueError("stopped")
    assert (gate.inside, gate.unused) == (0, 0)


def test_what_was_used_goes_back_once() -> None:
    gate, right = granted()
    with right, right.used():
        assert (gate.inside, gate.unused) == (1, 0)
    assert (gate.inside, gate.unused) == (0, 0)


def test_what_was_moved_belongs_to_the_other_call() -> None:
    gate, right = granted()
    with right:
        other = right.moved()
    assert gate.inside == 1
    with other:
        pass
    assert (gate.inside, gate.unused) == (0, 0)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_what_a_task_has_goes_back_though_it_is_cancelled_before_it_begins(turns: int) -> None:
    gate, right = granted()
    never = asyncio.Event()

    async def work() -> None:
        await never.wait()

    with right:
        task = asyncio.ensure_future(work())
        right.belongs_to(task)
    assert gate.inside == 1, "the block has handed it on"
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (gate.inside, gate.unused) == (0, 0)


def test_without_limits_there_is_nothing_to_give_back() -> None:
    right = Right()
    with right, right.used():
        pass


@given(st.lists(st.sampled_from(["block", "used", "moved"]), max_size=8))
def test_whatever_becomes_of_it_it_goes_back_once(ways: list[str]) -> None:
    gate, right = granted()
    with right:
        for way in ways:
            if way == "moved":
                right = right.moved()
            else:
                with right if way == "block" else right.used():
                    pass
        with right:
            pass
    assert (gate.inside, gate.unused) == (0, 0)
