"""A service whose database cannot be written for a while: what it drove goes on by itself, without a new start."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from access_world import Held
from run_tasks import plan, step
from service_here import service_here

from replan.core.events import TERMINAL
from replan.errors import StoreBusy, StoreError
from replan.run.access.callers import LOCAL
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.access.use_cases import UseCases
from replan.server.store_check import FRESH_SECS, StoreCheck
from replan.testing import FakeTool, MemoryStore, virtual_time

pytestmark = pytest.mark.anyio


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """No file of this process grows beyond the size of that one, as long as the context is open."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_tasks_whose_events_could_not_be_written_go_on_once_they_can(tmp_path: Path) -> None:
    source = Held({"look": FakeTool(output="seen")})
    options = SubmitOptions(plan=plan(step("a", "hold"), step("b", "look", "a")), evaluation="steps")
    async with asyncio.timeout(30), service_here(tmp_path, tools=[source]) as here:
        replan = here.replan
        cases = UseCases(replan.service, replan.serving())
        made = await cases.submit(LOCAL, SubmitRequest(task_description="x", options=options))
        await source.entered.wait()
        with full_disk(tmp_path / "tasks.db-wal"):
            source.let_go.set()
            while replan.drives(made.task_id):
                await replan.summary(made.task_id)
        assert (await replan.summary(made.task_id)).status not in ("succeeded", "failed")
        async for record in replan.service.follow(made.task_id, 0):
            if isinstance(record.event, TERMINAL):
                break
        assert (await replan.result(made.task_id)).succeeded


async def test_it_is_not_ready_while_its_disk_is_full_or_its_file_is_away(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        service_here(tmp_path) as here,
        httpx2.AsyncClient(base_url=here.url) as client,
    ):

        async def stands() -> tuple[int, str]:
            await asyncio.sleep(FRESH_SECS + 0.05)
            answer = await client.get("/ready")
            (store,) = [one for one in answer.json()["dependencies"] if one["name"] == "store"]
            assert store["ready"] == (answer.status_code == 200)
            return answer.status_code, store["detail"]

        assert (await stands())[0] == 200
        with full_disk(tmp_path / "tasks.db-wal"):
            code, why = await stands()
        assert code == 503
        assert "cannot" in why
        assert (await stands())[0] == 200
        other = await asyncio.to_thread(sqlite3.connect, tmp_path / "tasks.db", check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        code, why = await stands()
        assert code == 503
        assert "locked by another process" in why or "not answered" in why
        assert time.monotonic() - began < 10
        other.rollback()
        other.close()
        assert (await stands())[0] == 200
        (tmp_path / "tasks.db").rename(tmp_path / "elsewhere.db")
        code, why = await stands()
        assert (code, "deleted or replaced" in why) == (503, True)
        (tmp_path / "elsewhere.db").rename(tmp_path / "tasks.db")
        assert (await stands())[0] == 200


class Slow(MemoryStore):
    """A store that takes its time for each write."""

    def __init__(self, secs: float) -> None:
        super().__init__()
        self.secs, self.tried = secs, 0

    async def try_write(self) -> None:
        self.tried += 1
        await asyncio.sleep(self.secs)


def test_many_who_ask_at_a_time_are_one_look() -> None:
    async def main() -> int:
        store = Slow(0.5)
        check = StoreCheck(store)
        await asyncio.gather(*(check() for _ in range(50)))
        await check()
        assert store.tried == 1
        await asyncio.sleep(FRESH_SECS + 0.1)
        await check()
        return store.tried

    assert virtual_time(main()) == 2


def test_a_database_that_does_not_answer_is_not_waited_for_and_asked_once() -> None:
    async def main() -> tuple[int, float]:
        store = Slow(100)
        check = StoreCheck(store)
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            with pytest.raises(StoreBusy, match="has not answered within 5 s"):
                await check()
        return store.tried, asyncio.get_running_loop().time() - began

    assert virtual_time(main()) == (1, 15)


async def test_what_keeps_a_store_from_writing_is_told_each_time() -> None:
    class Broken(MemoryStore):
        async def try_write(self) -> None:
            raise StoreError("it is read-only")

    check = StoreCheck(Broken())
    for _ in range(2):
        with pytest.raises(StoreError, match="it is read-only"):
            await check()
