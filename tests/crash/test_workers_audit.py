"""Workers write the audit of a PostgreSQL database to files: one at a time, and the next goes on where one has died."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import workers as world
from replan.core.audit.records import audit_record
from workers import SECS, WorkerProcess, Workers, step

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork and pidfd"),
]
STEPS = [step("a", "do"), step("b", "hold", "a"), step("c", "do", "b")]
LOOK_SECS = 0.02


@pytest.fixture
def workers(postgres_database: str) -> Iterator[Workers]:
    with (
        TemporaryDirectory(prefix="rpw", dir="/tmp") as folder,  # short: a socket's path is
        Workers(Path(folder), postgres_database) as made,
    ):
        yield made


def told(file: Path) -> list[dict[str, Any]]:
    """The records in it; a line that a killed process has not finished is none."""
    lines = file.read_text("utf-8").splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def started(workers: Workers, name: str) -> tuple[WorkerProcess, Path]:
    file = workers.folder / f"{name}.jsonl"
    return workers.start(tools=["do", "hold"], audit=str(file)), file


async def records(files: list[Path], task_id: str, event: str) -> list[list[dict[str, Any]]]:
    """Those of the task, by file, once one of them is of such an event."""
    async with asyncio.timeout(SECS):
        while True:
            found = [[one for one in told(file) if one["task_id"] == task_id] for file in files]
            if any(one["fields"]["event"] == event for each in found for one in each):
                return found
            await asyncio.sleep(LOOK_SECS)


async def expected(replan: Any, task_id: str) -> dict[int, dict[str, Any]]:
    """What the task's log comes to, by the place of each record in it."""
    made = [audit_record(record) for record in await replan.history(task_id)]
    return {one["fields"]["seq"]: one for one in made if one is not None}


async def test_a_worker_that_is_killed_loses_no_record_and_the_next_goes_on(workers: Workers) -> None:
    (one, first), (two, second) = started(workers, "one"), started(workers, "two")
    files = [first, second]
    async with world.replan({"folder": str(workers.folder), "address": workers.address}) as replan:
        task_id = await replan.submit("do it", plan={"steps": STEPS})
        arrival = await asyncio.to_thread(workers.gate.next)
        before = await records(files, task_id, "step_started")
        assert not (before[0] and before[1]), "one delivers at a time"
        delivers = one if before[0] else two
        delivers.kill()
        await asyncio.to_thread(delivers.ended)
        if arrival.pid == delivers.pid:  # the other takes the task over, too
            arrival = await asyncio.to_thread(workers.gate.next)
        arrival.let_go()
        async with asyncio.timeout(SECS):
            assert (await replan.wait(task_id)).succeeded
        after = await records(files, task_id, "task_completed")
        wanted = await expected(replan, task_id)
    assert workers.done(task_id) == ["a", "b", "c"]
    for each in after:
        places = [one["fields"]["seq"] for one in each]
        assert sorted(set(places)) == list(dict.fromkeys(places)), "the first coming of each is in order"
        assert all(one == wanted[one["fields"]["seq"]] for one in each)
    assert {one["fields"]["seq"] for each in after for one in each} == set(wanted)
    assert after[0], "before it was killed"
    assert after[1], "after that"
