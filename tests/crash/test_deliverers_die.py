"""Processes that deliver a log are killed between a delivery and its cursor, while the log is written: nothing is passed over."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from replan.config import Settings
from replan.core.events import AnyEvent, StepReady, TaskCompleted, TaskSubmitted
from replan.ports import HasOutbox, Store
from replan.wiring import open_store

pytestmark = pytest.mark.anyio
SECS = 120.0
SEED = "a night of bad luck"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database"))
    return str(tmp_path / "log.db")


class Deliverers:
    """So many processes; one that is dead is followed by a new one."""

    def __init__(self, address: str, journal: Path, count: int, risk: float) -> None:
        self.deaths = 0
        self._command = [sys.executable, str(Path(__file__).with_name("deliverer.py")), address, str(journal)]
        self._risk = risk
        self._started = 0
        self._running = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        given = [f"{SEED} {self._started}", str(self._risk)]
        return subprocess.Popen([*self._command, *given], stdout=subprocess.DEVNULL)

    def look(self) -> None:
        for at, process in enumerate(self._running):
            if process.poll() is not None:
                self.deaths += 1
                self._running[at] = self._start()

    def kill_one(self, chance: random.Random) -> None:
        chance.choice(self._running).kill()

    def calm(self) -> None:
        """From now on none dies by itself."""
        self._risk = 0.0

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


async def write(store: Store, task_id: str, chance: random.Random) -> int:
    """A task with some events; how many."""
    count = 1
    await store.create(task_id, TaskSubmitted(description=task_id), 1.0)
    claim = await store.claim(task_id)
    for _ in range(chance.randrange(1, 8)):
        events: list[AnyEvent] = [StepReady(step_id=f"s{n}") for n in range(chance.randrange(1, 6))]
        count += len(events)
        await store.append(claim, events, ts=2.0, round=1)
    if chance.random() < 0.7:
        await store.append(claim, [TaskCompleted()], ts=2.0, round=1)
        count += 1
    await store.release(claim)
    return count


@pytest.mark.parametrize(("deaths", "risk"), [(3, 0.4), pytest.param(60, 0.2, marks=pytest.mark.prove)])
async def test_a_killed_deliverer_is_followed_by_one_that_passes_over_nothing(
    address: str, tmp_path: Path, deaths: int, risk: float
) -> None:
    chance, journal, made = random.Random(SEED), tmp_path / "journal", dict[str, int]()
    async with AsyncExitStack() as closing:
        store = open_store(address, Settings())
        closing.push_async_callback(store.aclose)
        assert isinstance(store, HasOutbox)
        deliverers = Deliverers(address, journal, 2, risk)
        closing.callback(deliverers.close)
        async with asyncio.timeout(SECS * 4):
            while deliverers.deaths < deaths:
                made[f"t{len(made)}"] = await write(store, f"t{len(made)}", chance)
                deliverers.look()
                if chance.random() < 0.01:
                    deliverers.kill_one(chance)
                await asyncio.sleep(0.01)
            deliverers.calm()
            while not (states := await store.outbox().consumers()) or states[0].events_behind:
                deliverers.look()
                await asyncio.sleep(0.1)

    got: dict[str, int] = defaultdict(int)
    for line in journal.read_text().splitlines():
        task_id, seq = line.split()
        assert int(seq) <= got[task_id] + 1, f"{task_id} came to {seq} after {got[task_id]}"
        got[task_id] = max(got[task_id], int(seq))
    assert got == made
