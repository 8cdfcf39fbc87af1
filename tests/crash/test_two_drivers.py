"""Two drive one task at once: the older one is fenced out, and harms nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.core.events import TERMINAL, CallCompleted, OutcomeUnknown
from replan.errors import StaleWriter, TaskHeld
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
