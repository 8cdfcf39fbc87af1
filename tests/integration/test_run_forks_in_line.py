"""Tasks of a family that are taken up again one after the other: one that waits for another keeps nobody from its turn."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest
from run_tasks import Ran
from test_run_forks import at_of, forked
from test_run_forks_like_doubts import BOOKS, Hall, driven_for, keys_of
from test_run_turns import come_up, process

from replan.core.state.progress import ALONE_AFTER
from replan.testing import virtual_time


@pytest.mark.parametrize("had", [False, True], ids=["not had", "had"])
@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_tasks_with_one_doubt_that_stand_in_line_come_to_their_ends(
    order: tuple[int, ...], *, had: bool
) -> None:
    async def main() -> tuple[Hall, list[Ran]]:
        hall = Hall()
        made = await hall.bench()
        first = await made.submit(BOOKS)
        cut = await driven_for(made, first, 4)
        before = at_of(cut, "plan_generated")
        tasks = [first, await forked(made, first, at=before), await forked(made, first, at=before)]
        come_up(made)
        for _ in range(ALONE_AFTER + 1):
            await process(made, *tasks, dies_after=0.5)
        await process(made, first, dies_after=20)
        assert len(keys_of(made)) == 2, (
            "the first of them is at its second try, and none of them knows more than that"
        )
        states = [await made.ran(name) for name in tasks]
        assert all(one.state.fruitless_next >= ALONE_AFTER for one in states), "each waits for its turn"
        if had:
            hall.booked.append("s1")
            hall.keys += keys_of(made)
        drives = (made.drive(tasks[at]) for at in order)
        return hall, await asyncio.wait_for(asyncio.gather(*drives), 600)

    hall, ran = virtual_time(main())
    for one in ran:
        assert one.check().result.is_success, one.result.reason
    assert hall.booked == ["s1"]
