"""A log in pages: nothing is left out between them, and what they come to is what the whole log comes to."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, bench

from replan.core.events import StepReady, StepStarted, TaskStarted, TaskSubmitted, UnknownEvent
from replan.core.plain_calls import PlainEnd, PlainStart, Recorded
from replan.core.state.fold import fold
from replan.errors import StoreUnusable
from replan.ports import Claim
from replan.run.session.opening import Claimed
from replan.run.session.pages import PAGE, folded, pages
from replan.testing import MemoryStore, virtual_time


async def with_log(store: MemoryStore, *events: Recorded) -> Claim:
    """A task whose log has these after its request."""
    await store.create("t", TaskSubmitted(description="Do it", metadata={"a": "b"}), 1.0)
    claim = await store.claim("t")
    await store.append(claim, events, ts=2.0, round=1)
    return claim


def many(count: int) -> list[Recorded]:
    return [StepReady(step_id=f"s{n}") for n in range(count)]


@pytest.mark.parametrize("length", [1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
def test_every_record_is_in_one_page_and_only_the_last_is_not_full(length: int) -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_log(store, *many(length - 1))
        found = [page async for page in pages(store, "t")]
        assert [record.seq for page in found for record in page] == list(range(1, length + 1))
        assert [len(page) for page in found[:-1]] == [PAGE] * (len(found) - 1)
        assert len(found[-1]) < PAGE

    virtual_time(main())


def test_the_state_of_a_long_log_is_that_of_all_its_records() -> None:
    async def main() -> None:
        store = MemoryStore()
        late = [
            StepStarted(step_id="s"),
            PlainStart("s", "k.1", "t", "once", {}),
            PlainEnd("s", "k.1", "t", 7, 0.5),
        ]
        await with_log(store, TaskStarted(), *many(PAGE), *late)
        assert await folded(store, "t") == fold(await store.read("t"))

    virtual_time(main())


async def opened(*events: Recorded) -> Any:
    """The state of a drive of such a log."""
    store = MemoryStore()
    made = await bench({"t": FakeTool()}, store=store)
    await store.release(await with_log(store, *events))
    async with Claimed("t", made.service.parts) as run:
        return run.state


@pytest.mark.parametrize("before", [0, PAGE])
def test_a_log_that_cannot_be_read_is_not_driven_wherever_that_stands(before: int) -> None:
    odd = UnknownEvent(type="call_started", data={"effect": "once_a_day"})  # type: ignore[arg-type]
    with pytest.raises(StoreUnusable, match=rf"number {before + 2} of its log"):
        virtual_time(opened(*many(before), odd))


@pytest.mark.parametrize("before", [0, PAGE])
def test_a_mask_is_known_to_be_lost_wherever_it_stands(before: int) -> None:
    state = virtual_time(opened(*many(before), StepReady(step_id="s", masked=True)))
    assert state.any_lost
    assert not virtual_time(opened(*many(before + 1))).any_lost
