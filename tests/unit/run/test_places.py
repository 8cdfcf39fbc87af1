"""Places: how many at a time, who is next, whose they are, and what closing does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.run.calls.slots import Place, Places, PlacesClosed

pytestmark = pytest.mark.anyio


class Held:
    """Places that are launched into, and kept."""

    def __init__(self, limit: int) -> None:
        self.places = Places(limit)
        self.launched: list[object] = []
        self.kept: list[Place] = []

    def offer(self, name: object, urgency: float = 0) -> None:
        def launch(place: Place) -> None:
            self.launched.append(name)
            place.belongs_to(asyncio.create_task(self.never()))
            self.kept.append(place)

        self.places.offer(urgency, launch)

    async def never(self) -> None:
        await asyncio.Event().wait()


async def test_no_more_than_the_limit_hold_a_place() -> None:
    held = Held(2)
    for n in range(4):
        held.offer(n)
    assert held.launched == [0, 1]
    assert (held.places.free, held.places.waiting) == (0, 2)
    held.kept[0].give()
    held.kept[0].give()  # it has none any more
    assert held.launched == [0, 1, 2]


async def test_the_most_urgent_is_next_and_equals_come_in_order() -> None:
    held = Held(1)
    with held.places.together():
        for urgency, name in [(1, "a"), (3, "b"), (3, "c"), (2, "d")]:
            held.offer(name, urgency)
        assert held.launched == []
    for n in range(3):
        held.kept[n].give()
    assert held.launched == ["b", "c", "d", "a"]


async def test_a_launch_that_ends_at_once_does_not_nest() -> None:
    """Ten thousand of them in a row would end in a recursion error."""
    places = Places(1)
    count = 0

    def launch(place: Place) -> None:
        nonlocal count
        count += 1
        if count < 10_000:
            places.offer(0, launch)

    places.offer(0, launch)
    assert count == 10_000
    assert places.free == 1


async def test_a_launch_that_breaks_takes_no_place_with_it() -> None:
    places = Places(1)

    def launch(place: Place) -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        places.offer(0, launch)
    assert places.free == 1


async def test_whoever_hands_out_is_told_once_all_is_handed_out() -> None:
    told: list[int] = []
    places = Places(1, told.append)
    kept: list[Place] = []

    def launch(place: Place) -> None:
        place.belongs_to(asyncio.create_task(asyncio.sleep(0)))
        kept.append(place)

    with places.together():
        places.offer(0, launch)
        places.offer(0, launch)
    assert told == [1]


async def ends(place: Place) -> None:
    await place.take(0)


async def breaks(place: Place) -> None:
    await place.take(0)
    raise ValueError("broken")


async def breaks_aside(place: Place) -> None:
    await place.take(0)
    async with place.away(0):
        raise ValueError("broken")


async def breaks_inside(place: Place) -> None:
    async with place.taken(0):
        raise ValueError("broken")


async def is_stopped(place: Place) -> None:
    await place.take(0)
    current = asyncio.current_task()
    assert current is not None
    current.cancel()
    await asyncio.sleep(0)


async def waits_and_is_stopped(place: Place) -> None:
    await place.take(0)
    async with place.away(0):
        await is_stopped(place)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from([ends, breaks, breaks_aside, breaks_inside, is_stopped, waits_and_is_stopped]),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 3),
)
def test_however_tasks_end_their_places_come_back(
    works: list[Callable[[Place], Awaitable[None]]], limit: int
) -> None:
    async def main() -> None:
        places = Places(limit)

        async def run(work: Callable[[Place], Awaitable[None]], place: Place) -> None:
            await work(place)

        tasks = []
        for work in works:
            place = Place(places)
            tasks.append(asyncio.create_task(run(work, place)))
            place.belongs_to(tasks[-1])
        await asyncio.wait(tasks)
        for task in tasks:
            _ = task.cancelled() or task.exception()
        await asyncio.sleep(0)
        assert (places.free, places.waiting) == (limit, 0)

    asyncio.run(main())


async def test_a_task_that_is_stopped_before_it_begins_gives_its_place_back() -> None:
    places = Places(1)

    def launch(place: Place) -> None:
        task = asyncio.create_task(asyncio.sleep(0))
        place.belongs_to(task)
        task.cancel()

    places.offer(0, launch)
    assert places.free == 0
    later = Place(places)
    await later.take(0)
    assert later.held


async def test_a_place_that_is_handed_on_goes_back_with_its_new_owner() -> None:
    places = Places(1)
    place = Place(places)
    done = asyncio.Event()
    first = asyncio.create_task(ends(place))
    place.belongs_to(first)
    second = asyncio.create_task(done.wait())
    await asyncio.sleep(0)
    place.belongs_to(second)  # type: ignore[arg-type]
    await first
    await asyncio.sleep(0)
    assert places.free == 0
    done.set()
    await second
    await asyncio.sleep(0)
    assert places.free == 1


async def test_a_cancelled_waiter_takes_no_place_with_it() -> None:
    places = Places(1)
    place = Place(places)
    await place.take(0)
    waiting = asyncio.create_task(Place(places).take(0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    place.give()
    assert places.free == 1


async def test_a_waiter_cancelled_as_it_gets_its_place_gives_it_back() -> None:
    places = Places(1)
    place = Place(places)
    await place.take(0)
    waiting = asyncio.create_task(Place(places).take(0))
    await asyncio.sleep(0)
    place.give()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert places.free == 1


async def test_closing_tells_who_waits_and_gives_nothing_any_more() -> None:
    held = Held(1)
    place = Place(held.places)
    await place.take(0)
    waiting = asyncio.create_task(Place(held.places).take(0))
    held.offer(1)
    await asyncio.sleep(0)
    held.places.close()
    with pytest.raises(PlacesClosed):
        await waiting
    place.give()
    held.offer(2)
    with pytest.raises(PlacesClosed):
        await place.take(0)
    assert held.launched == []
    assert held.places.waiting == 0
