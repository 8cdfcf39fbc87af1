"""Tasks that no process has: whatever keeps a worker from looking at one is not the end of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from replan.app.taking_up import take_up
from replan.core.events import Record, TaskSubmitted
from replan.core.limits.needs import Needs, Work
from replan.errors import ReplanError, StoreBusy, StoreDamaged
from replan.testing.store import MemoryStore

pytestmark = pytest.mark.anyio
SECS = 20.0


class Failing(MemoryStore):
    """One whose logs cannot be read, for a while or for good."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: dict[str, list[Exception]] = {}
        self.reads: list[str] = []

    async def read(self, task_id: str, after: int = 0) -> list[Record]:
        self.reads.append(task_id)
        if fails := self.fails.get(task_id):
            raise fails.pop()
        return await super().read(task_id, after)


class Line:
    """The queue, as far as it is asked here: some tasks are left behind, one more with each look, `most` at once."""

    def __init__(self, *task_ids: str, most: int = 20) -> None:
        self.left = dict.fromkeys(task_ids, 1.0)
        self.fails: list[ReplanError] = []
        self.woken: list[str] = []
        self.looks = 0
        self._most = most
        self._changed = asyncio.Event()

    async def left_behind(self, tried: Mapping[str, float], stale: float) -> dict[str, float]:
        self.looks += 1
        self._changed.set()
        there = [one for one in self.left.items() if tried.get(one[0]) != one[1]]
        return dict(there[: self._most])

    async def wake(self, task_id: str, work: Work | None = None) -> None:
        if self.fails:
            raise self.fails.pop()
        self.woken.append(task_id)
        del self.left[task_id]
        self._changed.set()

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(SECS):
            while not done():
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def at_work(
    store: Failing, line: Line, offers: Needs | None = None, stood: list[str] | None = None
) -> Any:
    async def look(_: Any) -> None: ...

    async def stand(task_id: str) -> None:
        assert stood is not None
        stood.append(task_id)

    taking = asyncio.create_task(
        take_up(
            store,
            line,
            lambda: offers or Needs(tools=("do", "replan:forks")),
            look,
            stand,
            stale=0.0,
            every=0.0,
        )  # type: ignore[arg-type]
    )
    try:
        yield
        assert not taking.done()
    finally:
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await taking


async def stored(*task_ids: str, tool: str = "do") -> Failing:
    store = Failing()
    plan = {"steps": [{"step_id": "a", "tool": tool, "parameters": {}}]}
    for task_id in task_ids:
        await store.create(task_id, TaskSubmitted(description="do it", plan=plan), 1.0)
    return store


@pytest.mark.parametrize("times", [1, 4])
async def test_a_database_that_did_not_answer_is_asked_again(times: int) -> None:
    store, line = await stored("t"), Line("t")
    store.fails["t"] = [StoreBusy("no answer") for _ in range(times)]
    async with at_work(store, line):
        await line.until(lambda: line.woken)
    assert line.woken == ["t"]


async def test_nor_is_a_wake_up_that_was_lost_the_last_one() -> None:
    store, line = await stored("t"), Line("t")
    line.fails = [StoreBusy("no answer")]
    async with at_work(store, line):
        await line.until(lambda: line.woken)


@pytest.mark.parametrize(
    "fault", [KeyError("step"), RecursionError(), StoreDamaged("not what was stored")], ids=type
)
async def test_logs_that_cannot_be_read_are_asked_about_ever_less_and_keep_no_other_waiting(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [f"bad{number}" for number in range(3)]
    store, line = await stored(*bad, "good", "late"), Line(*bad, "good", most=3)
    store.fails = {one: [fault] * 1000 for one in bad}
    async with at_work(store, line):
        await line.until(lambda: line.woken)
        await line.until(lambda: line.looks > 100)
        line.left["late"] = 2.0
        await line.until(lambda: len(line.woken) == 2)
    assert line.woken == ["good", "late"]
    assert len([one for one in store.reads if one == "bad0"]) < 15
    assert len([one for one in caplog.messages if "bad0" in one]) == 1


async def test_what_is_none_for_a_worker_is_read_once() -> None:
    store, line = await stored("t", tool="other"), Line("t")
    async with at_work(store, line):
        await line.until(lambda: line.looks > 20)
    assert store.reads == ["t"]
    assert line.woken == []


async def test_a_task_whose_secrets_its_process_had_alone_says_once_that_it_waits_for_them() -> None:
    store, line, stood = await stored(), Line("own", "named"), list[str]()
    plan = {"steps": [{"step_id": "a", "tool": "do", "parameters": {}}]}
    for task_id, source in (("own", ""), ("named", "env:TOKEN")):
        event = TaskSubmitted(description="do it", plan=plan, secrets={"token": source})
        await store.create(task_id, event, 1.0)
    async with at_work(store, line, stood=stood):
        await line.until(lambda: line.looks > 20)
    assert stood == ["own"]
    assert line.woken == ["named"]
