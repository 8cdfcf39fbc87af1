"""Many tasks, and workers that are killed, frozen, woken and told to end at random: none is lost, no effect is had twice."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import workers as world
from postgres_server import PostgresServer
from workers import Workers, step

SEED = 20_261_129
SECS = 600.0

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork, pidfd and SIGSTOP"),
]


@pytest.mark.parametrize(("tasks", "blows"), [(20, 6), pytest.param(300, 60, marks=pytest.mark.prove)])
async def test_no_task_is_lost_and_no_effect_had_twice_whatever_becomes_of_the_workers(
    postgres_database: str, postgres_server: PostgresServer, tasks: int, blows: int
) -> None:
    chance = random.Random(SEED)
    steps = [
        step("a", "do"),
        *(step(f"n{n}", "nap", "a") for n in range(4)),
        step("z", "do", *(f"n{n}" for n in range(4))),
    ]
    with (
        TemporaryDirectory(prefix="rpw", dir="/tmp") as folder,
        Workers(Path(folder), postgres_database) as workers,
    ):
        async with world.replan({"folder": folder, "address": postgres_database}) as replan:
            living = [await asyncio.to_thread(workers.start, concurrency=4, grace=1.0) for _ in range(3)]
            frozen: list[world.WorkerProcess] = []
            ids = [await replan.submit("do it", plan={"steps": steps}) for _ in range(tasks)]
            for _ in range(blows):
                await asyncio.sleep(chance.uniform(0.1, 0.8))  # a blow may come at any time
                if frozen and chance.random() < 0.5:
                    woken = frozen.pop()
                    woken.kill(signal.SIGCONT)
                    living.append(woken)
                    continue
                how = chance.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
                hit = living.pop(chance.randrange(len(living)))
                hit.kill(how)
                if how is signal.SIGSTOP:
                    frozen.append(hit)
                if len(living) < 3:
                    living.append(await asyncio.to_thread(workers.start, concurrency=4, grace=1.0))
            for woken in frozen:
                woken.kill(signal.SIGCONT)
            async with asyncio.timeout(SECS):
                results = [await replan.wait(task_id) for task_id in ids]
            doubted = 0
            for result in results:
                records = await replan.history(result.task_id)
                assert [record.seq for record in records] == list(range(1, len(records) + 1)), (
                    "no log has a gap"
                )
                if result.status == "waiting":  # cut off in the middle of a call: a person has to look
                    doubted += 1
                    assert any(record.type == "outcome_unknown" for record in records)
                else:
                    assert result.status == "succeeded", result.failure
            done = Counter((name, task) for name, task, _ in workers.journal())
            assert {what: count for what, count in done.items() if count > 1} == {}
            assert len(done) >= 2 * (tasks - doubted)
    left = postgres_server.sql(
        "SELECT count(*) FROM replan.task WHERE due OR NOT (ended OR status = 'waiting')",
        database=postgres_database.rsplit("/", 1)[1],
    )
    assert left == "0\n", "nothing is stuck"
