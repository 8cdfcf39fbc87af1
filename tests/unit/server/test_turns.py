"""Whose turn it is to have a large answer made."""

from __future__ import annotations

import asyncio

import pytest

from replan.errors import TooMany
from replan.run.access.callers import LOCAL
from replan.server.turns import MOST_AT_ONCE, MOST_OF_A_KEY, Turns

pytestmark = pytest.mark.anyio
ONE, OTHER = LOCAL._replace(key_id="one"), LOCAL._replace(key_id="other")


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_key_waits_for_itself_and_others_do_not_wait_for_all_of_it() -> None:
    turns, begun, let_go = Turns(), [], asyncio.Event()

    async def one_of(caller: object, name: str) -> None:
        with turns.turn(caller) as turn:  # type: ignore[arg-type]
            await turn.begin()
            begun.append(name)
            await let_go.wait()

    many = [asyncio.create_task(one_of(ONE, f"one {number}")) for number in range(50)]
    await settle()
    assert len(begun) == MOST_OF_A_KEY
    others = [asyncio.create_task(one_of(OTHER, f"other {number}")) for number in range(3)]
    await settle()
    assert begun[MOST_OF_A_KEY:] == ["other 0", "other 1"]
    assert len(begun) <= MOST_AT_ONCE
    for one in many[10:]:
        one.cancel()
    let_go.set()
    await asyncio.gather(*many, *others, return_exceptions=True)
    assert sorted(begun) == sorted([f"one {n}" for n in range(10)] + [f"other {n}" for n in range(3)])
    let_go.clear()
    again = asyncio.create_task(one_of(ONE, "again"))  # nothing is left of those who gave up
    await settle()
    let_go.set()
    await again
    assert begun[-1] == "again"


async def test_one_whose_turn_does_not_come_is_told_so() -> None:
    turns = Turns(most_secs=0.01)
    held = [turns.turn(ONE) for _ in range(MOST_OF_A_KEY)]
    for one in held:
        await one.__enter__().begin()
    with turns.turn(ONE) as late, pytest.raises(TooMany, match="at a time for one key") as told:
        await late.begin()
    assert told.value.retry_after
    held[0].__exit__(None, None, None)
    with turns.turn(ONE) as now:
        await now.begin()


async def test_one_who_waits_for_others_is_told_so_and_one_who_is_patient_waits_on() -> None:
    turns = Turns(most_secs=0.01)
    callers = [LOCAL._replace(key_id=str(number)) for number in range(MOST_AT_ONCE)]
    held = [turns.turn(one) for one in callers]
    for one in held:
        await one.__enter__().begin()
    with turns.turn(ONE) as late, pytest.raises(TooMany, match="4 at a time here") as told:
        await late.begin()
    assert "side by side" not in str(told.value)
    turns.untaken(ONE, 2**40)
    with turns.turn(ONE, patient=True) as patient:
        waiting = asyncio.create_task(patient.begin())
        await asyncio.sleep(0.03)
        assert not waiting.done()
        held[0].__exit__(None, None, None)
        await waiting


async def test_what_is_made_and_not_taken_is_bounded_by_key() -> None:
    turns = Turns(most_bytes=1_000)
    taken = turns.untaken(ONE, 5_000)  # one it may have, however large
    with pytest.raises(TooMany, match="not taken yet"):
        turns.untaken(ONE, 1)
    with turns.turn(ONE) as turn, pytest.raises(TooMany):
        await turn.begin()
    turns.untaken(OTHER, 900)()
    taken()
    with turns.turn(ONE) as turn:
        await turn.begin()


async def test_many_keys_together_have_no_more_than_a_few() -> None:
    turns, keys = Turns(most_bytes=1_000), [LOCAL._replace(key_id=f"k{n}") for n in range(9)]
    taken = [turns.untaken(one, 700) for one in keys[:3]]
    with pytest.raises(TooMany, match="the keys of this tenant"):
        turns.untaken(keys[3], 1)
    others = [LOCAL._replace(tenant=f"t{n}") for n in range(9)]
    taken += [turns.untaken(one, 5_000) for one in others[:2]]
    with turns.turn(others[2]) as turn, pytest.raises(TooMany, match="all keys"):
        await turn.begin()
    for each in taken:
        each()
    turns.untaken(others[2], 1)()
