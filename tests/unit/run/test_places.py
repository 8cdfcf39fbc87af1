"""Places: how many at a time, who is next, and what closing does."""

from __future__ import annotations

import asyncio

import pytest

from replan.run.places import Places, PlacesClosed

pytestmark = pytest.mark.anyio


async def test_no_more_than_the_limit_hold_a_place() -> None:
    launched: list[int] = []
    places = Places(2)
    for n in range(4):
        places.offer(0, lambda n=n: launched.append(n))  # type: ignore[misc]
    assert launched == [0, 1]
    assert (places.free, places.waiting) == (0, 2)
    places.give()
    assert launched == [0, 1, 2]


async def test_the_most_urgent_is_next_and_equals_come_in_order() -> None:
    launched: list[str] = []
    places = Places(1)
    with places.together():
        for urgency, name in [(1, "a"), (3, "b"), (3, "c"), (2, "d")]:
            places.offer(urgency, lambda name=name: launched.append(name))  # type: ignore[misc]
        assert launched == []
    for _ in range(3):
        places.give()
    assert launched == ["b", "c", "d", "a"]


async def test_a_launch_that_ends_at_once_does_not_nest() -> None:
    """Ten thousand of them in a row would end in a recursion error."""
    places = Places(1)
    count = 0

    def launch() -> None:
        nonlocal count
        count += 1
        if count < 10_000:
            places.offer(0, launch)
        places.give()

    places.offer(0, launch)
    assert count == 10_000
    assert places.free == 1


async def test_whoever_hands_out_is_told_once_all_is_handed_out() -> None:
    told: list[int] = []
    places = Places(1, lambda: told.append(places.waiting))
    with places.together():
        places.offer(0, lambda: None)
        places.offer(0, lambda: None)
    assert told == [1]


async def test_a_cancelled_waiter_takes_no_place_with_it() -> None:
    places = Places(1)
    await places.take(0)
    waiting = asyncio.create_task(places.take(0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    places.give()
    assert places.free == 1
    given = asyncio.create_task(places.take(0))
    await asyncio.sleep(0)
    assert given.done()


async def test_a_waiter_cancelled_as_it_gets_its_place_gives_it_back() -> None:
    places = Places(1)
    await places.take(0)
    waiting = asyncio.create_task(places.take(0))
    await asyncio.sleep(0)
    places.give()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert places.free == 1


async def test_closing_tells_who_waits_and_gives_nothing_any_more() -> None:
    launched: list[int] = []
    places = Places(1)
    await places.take(0)
    waiting = asyncio.create_task(places.take(0))
    places.offer(0, lambda: launched.append(1))
    await asyncio.sleep(0)
    places.close()
    with pytest.raises(PlacesClosed):
        await waiting
    places.give()
    places.offer(0, lambda: launched.append(2))
    with pytest.raises(PlacesClosed):
        await places.take(0)
    assert launched == []
    assert places.waiting == 0
