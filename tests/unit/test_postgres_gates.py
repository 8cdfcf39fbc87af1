"""Jobs that wait until something large is stored: each task's stay in order, and nobody else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replan.store.postgres.gates import Gates

Job = tuple[str, int]


class World:
    def __init__(self) -> None:
        self.through: list[Job] = []
        self.storing: dict[Job, asyncio.Future[None]] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.gates: Gates[Job] = Gates(self.store, self.through.append, self.spawn)

    async def store(self, job: Job) -> None:
        self.storing[job] = asyncio.get_running_loop().create_future()
        await self.storing[job]

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    def submit(self, task: str, number: int, *, unready: bool) -> None:
        if not self.gates.holds(task, (task, number), unready=unready):
            self.through.append((task, number))

    async def turn(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def test_what_is_large_holds_up_its_own_task_only() -> None:
    async def main() -> None:
        world = World()
        world.submit("a", 1, unready=True)
        world.submit("a", 2, unready=False)
        world.submit("b", 1, unready=False)
        await world.turn()
        assert world.through == [("b", 1)]
        world.storing["a", 1].set_result(None)
        await world.turn()
        assert world.through == [("b", 1), ("a", 1), ("a", 2)]
        assert world.gates.empty
        world.submit("a", 3, unready=False)
        assert world.through[-1] == ("a", 3)

    asyncio.run(main())


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=30)


@given(STEPS)
def test_each_task_keeps_its_order_and_nothing_is_lost(steps: list[tuple[str, bool, bool]]) -> None:
    async def main() -> None:
        world = World()
        for number, (task, unready, lets_go) in enumerate(steps):
            world.submit(task, number, unready=unready)
            if lets_go:
                await world.turn()
                for future in world.storing.values():
                    if not future.done():
                        future.set_result(None)
        while not world.gates.empty:
            await world.turn()
            for future in world.storing.values():
                if not future.done():
                    future.set_result(None)
        await asyncio.gather(*world.tasks)
        for task in "abc":
            wanted = [number for number, (of, *_) in enumerate(steps) if of == task]
            assert [number for of, number in world.through if of == task] == wanted

    asyncio.run(main())
