"""What every store promises of events of some kinds out of many tasks' logs: each of them, in order, and no other."""

from __future__ import annotations

import pytest
from test_store import add, claimed, steps
from test_store_forks import fork

from replan.core.events import AnyEvent, LlmCallCompleted
from replan.core.types import Usage
from replan.ports import Store

pytestmark = pytest.mark.anyio

ASKED = "llm_call_completed"


def asked(number: int) -> AnyEvent:
    # with the name of another kind in its text, which is not of that kind
    usage = Usage(input_tokens=number)
    return LlmCallCompleted(call_id=f"c{number}", role="planner", model="m", usage=usage, text='"step_ready"')


async def picked(store: Store, after: dict[str, int], *kinds: str) -> dict[str, list[tuple[int, str]]]:
    found = await store.picked(after, kinds)
    assert all(record.task_id == task_id for task_id, records in found.items() for record in records)
    return {task_id: [(record.seq, record.type) for record in records] for task_id, records in found.items()}


async def test_events_are_picked_out_of_what_was_appended_together_and_alone(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 2), asked(1), *steps(3, 1), asked(2))
    await add(store, claim, asked(3))
    every = await store.read("t")
    wanted = [(one.seq, one.type) for one in every if one.type == ASKED]

    assert len(wanted) == 3
    assert await picked(store, {"t": 0}, ASKED) == {"t": wanted}
    assert await picked(store, {"t": 0}, ASKED, "task_submitted") == {"t": [(1, "task_submitted"), *wanted]}
    assert (await store.picked({"t": 0}, [ASKED]))["t"] == [one for one in every if one.type == ASKED]


async def test_each_task_is_read_from_where_it_is_known(store: Store) -> None:
    for task_id in ("a", "b", "c"):
        claim = await claimed(store, task_id)
        await add(store, claim, asked(1), *steps(1, 1), asked(2))

    assert await picked(store, {"a": 2, "b": 0, "c": 4, "not there": 0}, ASKED) == {
        "a": [(4, ASKED)],
        "b": [(2, ASKED), (4, ASKED)],
    }
    assert await picked(store, {}, ASKED) == {}
    assert await picked(store, {"a": 0}, "task_completed") == {}


async def test_what_a_fork_shares_is_not_its_own(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, asked(1), asked(2))
    await fork(store, "f", "t", 2)
    mine = await store.claim("f")
    await add(store, mine, asked(3))

    assert await picked(store, {"f": 0, "t": 0}, ASKED) == {"f": [(4, ASKED)], "t": [(2, ASKED), (3, ASKED)]}
    assert await picked(store, {"f": 0}, "task_submitted", "task_forked") == {"f": [(3, "task_forked")]}
