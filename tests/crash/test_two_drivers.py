"""Two drive one task at once: the older one is fenced out, and harms nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.core.events import TERMINAL, CallCompleted, OutcomeUnknown
from replan.errors import StaleWriter, TaskEnded, TaskHeld
from replan.ports import Clock, Store
from replan.run.orchestrator import drive

pytestmark = pytest.mark.anyio

STEPS = 12
SECS = 20.0


class Till:
    """Takes money once a customer, and can be stopped in front of one."""

    def __init__(self, wait_at: int | None = None) -> None:
        self.paid: Counter[int] = Counter()
        self.begun: Counter[int] = Counter()
        self.wait_at = wait_at
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()

    def tools(self, effect: Any, whose: str) -> list[Any]:
        @tool(effect=effect)
        async def pay(customer: int) -> dict[str, int]:
            self.begun[customer] += 1
            if whose == "first" and customer == self.wait_at:
                self.waits.set()
                await self.go_on.wait()
            self.paid[customer] += 1
            return {"customer": customer}

        return [pay]


def chain() -> dict[str, Any]:
    return {
        "steps": [
            {
                "step_id": f"s{n}",
                "tool": "pay",
                "parameters": {"customer": n},
                "dependencies": [f"s{n - 1}"] if n else [],
            }
            for n in range(STEPS)
        ]
    }


def opened(path: Path, till: Till, effect: str, whose: str) -> Replan:
    return Replan(tools=till.tools(effect, whose), db=path, evaluation="steps")


@pytest.mark.parametrize("at", [0, 5, STEPS - 1], ids=["first call", "in the middle", "last call"])
@pytest.mark.parametrize("effect", ["once", "repeatable", "reads"])
async def test_who_is_stolen_from_stops_and_the_thief_goes_on(tmp_path: Path, effect: str, at: int) -> None:
    path, till = tmp_path / "log.db", Till(wait_at=at)
    async with opened(path, till, effect, "first") as first, opened(path, till, effect, "second") as second:
        task_id = await first.submit("pay them all", plan=chain())
        loser = asyncio.ensure_future(first.wait(task_id))
        async with asyncio.timeout(SECS):
            await till.waits.wait()
            with pytest.raises(TaskHeld):
                await second.resume(task_id)

            state = await drive(task_id, second.service.parts, steal=True)
            till.go_on.set()
            with pytest.raises(StaleWriter):
                await loser
            records = await second.history(task_id)

    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record for record in records if isinstance(record.event, TERMINAL)] == records[-1:]
    done = Counter(record.event.step_id for record in records if isinstance(record.event, CallCompleted))
    assert all(count == 1 for count in done.values())
    doubts = [record.event for record in records if isinstance(record.event, OutcomeUnknown)]
    if effect == "once":
        # It was under way at the first driver: the second must not make it again.
        assert [doubt.step_id for doubt in doubts] == [f"s{at}"]
        assert state.status == "failed"
        assert till.begun[at] == 1
        assert sorted(till.begun) == list(range(at + 1))
    else:
        assert doubts == []
        assert state.status == "succeeded"
        assert sorted(done) == sorted(f"s{n}" for n in range(STEPS))
        assert till.begun == Counter({n: 2 if n == at else 1 for n in range(STEPS)})


async def test_drivers_that_steal_from_each_other_make_no_effect_twice(tmp_path: Path) -> None:
    path, till = tmp_path / "log.db", Till()
    async with opened(path, till, "once", "first") as first, opened(path, till, "once", "second") as second:
        await first.submit("pay them all", task_id="t", plan=chain())

        async def steal(replan: Replan) -> None:
            for _ in range(6):
                try:
                    if (await drive("t", replan.service.parts, steal=True)).ended:
                        return
                except StaleWriter:
                    continue

        async with asyncio.timeout(SECS):
            await asyncio.gather(steal(first), steal(second))
            await drive("t", first.service.parts, steal=True)  # whoever was last, it comes to an end
            records = await second.history("t")

    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record for record in records if isinstance(record.event, TERMINAL)] == records[-1:]
    assert all(count == 1 for count in till.begun.values()), till.begun


class FreezingStore:
    """The store of a process that is frozen once: an append of its has landed, and it has not heard of that yet."""

    def __init__(self, inner: Store, at: int) -> None:
        self._inner = inner
        self._left = at
        self.frozen = asyncio.Event()
        self.wakes = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, *args: Any, **more: Any) -> asyncio.Future[Any]:
        landing = self._inner.append(*args, **more)
        self._left -= 1
        return asyncio.ensure_future(self._late(landing)) if self._left == 0 else landing

    async def _late(self, landing: asyncio.Future[Any]) -> Any:
        landed = await landing
        self.frozen.set()
        await self.wakes.wait()
        return landed


class LaterClock:
    """A clock that goes on while the process is frozen."""

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self.later = 0.0

    def now(self) -> float:
        return self._inner.now() + self.later

    async def sleep(self, secs: float) -> None:
        await self._inner.sleep(secs)


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("effect", ["once", "repeatable"])
async def test_who_was_frozen_until_the_task_was_anothers_makes_no_call_when_it_wakes(
    tmp_path: Path, effect: str, at: int
) -> None:
    path, till = tmp_path / "log.db", Till()
    async with opened(path, till, effect, "first") as first, opened(path, till, effect, "second") as second:
        store = FreezingStore(first.service.parts.store, at)
        clock = LaterClock(first.service.parts.clock)
        first.service.parts.store, first.service.parts.clock = store, clock  # type: ignore[assignment]
        task_id = await first.submit("pay them all", plan=chain())
        loser = asyncio.ensure_future(first.wait(task_id))
        async with asyncio.timeout(SECS):
            await store.frozen.wait()
            await drive(task_id, second.service.parts, steal=True)
            before = dict(till.begun)
            clock.later = 20.0
            store.wakes.set()
            with pytest.raises((StaleWriter, TaskEnded)):
                await loser
    assert till.begun == before
    assert effect == "repeatable" or set(till.begun.values()) <= {1}
