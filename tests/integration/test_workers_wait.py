"""Waits of tasks that workers drive: nobody holds them, and whoever is there when they are due goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from workers_here import Here, ended, submitted

from replan.errors import StaleWriter
from workers import SECS, Workers, step

pytestmark = pytest.mark.anyio


def wait(name: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": name, "tool": tool, "parameters": parameters, "dependencies": list(needs)}


async def test_a_worker_lets_go_of_a_task_that_waits_and_takes_it_again_when_it_is_due(here: Here) -> None:
    async with here.worker(concurrency=1) as worker:
        pause = wait("pause", "wait_for_time", "a", seconds=3)
        waiting = await submitted(worker, step("a", "do"), pause, step("b", "do", "pause"), task_id="slow")
        await here.until("SELECT status, holder IS NULL FROM task WHERE task_id = 'slow'", "waiting|t\n")
        other = await submitted(worker, step("c", "do"))
        assert (await ended(worker, other)).status == "succeeded", "the only place is free meanwhile"
        assert (await ended(worker, waiting)).status == "succeeded"
        kinds = [record.type for record in await worker.history(waiting)]
        await here.until("SELECT count(*) FROM procrastinate_jobs", "0\n")
    assert kinds.count("task_waiting") == 1
    assert here.done() == ["a", "c", "b"]


async def test_a_callback_from_any_process_wakes_a_task_that_waits_for_it(here: Here) -> None:
    async with here.worker() as worker:
        task_id = await submitted(
            worker,
            wait("hook", "create_callback"),
            wait("said", "wait_for_callback", "hook", token="${hook.output.token}", limit_secs=3600),
            step("b", "do", "said"),
        )
        await here.until(
            f"SELECT status, holder IS NULL FROM task WHERE task_id = '{task_id}'", "waiting|t\n"
        )
        (token,) = [one.id for one in (await worker.result(task_id)).waiting_for if one.kind == "callback"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "replan.cli", "tasks", "signal", task_id, token, "--data", '{"ok": true}',
            "--db", here.address,
        )  # fmt: skip
        assert await process.wait() == 0
        result = await ended(worker, task_id)
        assert result.status == "succeeded"
        assert await worker.output(task_id, "said") == {"ok": True}
    assert here.done() == ["b"]


async def test_a_question_is_answered_from_any_process_and_runs_out_by_itself(here: Here) -> None:
    async with here.worker() as worker:
        asks = [
            wait("who", "ask_user", question="Who?"),
            wait("late", "ask_user", question="When?", limit_secs=2),
            step("b", "do", "who"),
        ]
        task_id = await submitted(worker, *asks)
        async with asyncio.timeout(SECS):
            async for record in worker.watch(task_id):
                if record.type == "step_failed":
                    assert "nobody has answered within 2 s" in record.event.error.message
                    break
        assert [one.step_id for one in (await worker.result(task_id)).waiting_for if one.id] == ["who"]
        async with here.replan() as other:
            await other.answer(task_id, "Ann", "who", by="ann")
        result = await ended(worker, task_id)
        assert await worker.output(task_id, "who") == "Ann"
    assert [one.step_id for one in result.ask] == ["late"]
    assert here.done() == ["b"]


async def test_a_task_that_waits_is_only_taken_by_who_knows_how_to_wait(here: Here) -> None:
    async with here.replan() as replan:
        await submitted(replan, wait("pause", "wait_for_time", seconds=0), task_id="t")
        needs = json.loads(here.sql("SELECT needs FROM need JOIN task USING (queue)"))
        assert needs["tools"] == ["wait_for_time"]
        async with here.worker() as worker:
            assert (await ended(worker, "t")).status == "succeeded"


async def test_waits_survive_the_workers_that_began_them(postgres_database: str) -> None:
    with (
        TemporaryDirectory(prefix="rpw", dir="/tmp") as folder,
        Workers(Path(folder), postgres_database) as world,
    ):
        first = world.start()
        from workers import replan as replan_of

        async with replan_of({"folder": folder, "address": postgres_database}) as replan:
            task_id = await submitted(
                replan,
                step("a", "do"),
                wait("pause", "wait_for_time", "a", seconds=3),
                step("b", "do", "pause"),
            )
            async with asyncio.timeout(SECS):
                async for record in replan.watch(task_id):
                    if record.type == "wait_started":
                        break
            first.kill()  # before, while or after it is let go of
            first.ended()
            world.start()
            assert (await ended(replan, task_id)).status == "succeeded"
            assert world.done(task_id) == ["a", "b"]
            kinds = [record.type for record in await replan.history(task_id)]
            assert kinds.count("wait_started") == 1


async def test_a_process_that_sleeps_on_its_own_task_hears_a_callback_through_the_database(
    here: Here,
) -> None:
    async with here.replan(kind="local") as mine, here.replan(kind="local") as other:
        task_id = await submitted(
            mine,
            wait("hook", "create_callback"),
            wait("said", "wait_for_callback", "hook", token="${hook.output.token}", limit_secs=3600),
            step("b", "do", "said"),
        )
        waiting = asyncio.create_task(mine.wait(task_id))
        await here.until(
            f"SELECT status, holder IS NULL FROM task WHERE task_id = '{task_id}'", "waiting|t\n"
        )
        (token,) = [one.id for one in (await other.result(task_id)).waiting_for if one.kind == "callback"]
        assert await other.signal(task_id, token, 7)
        async with asyncio.timeout(SECS):
            assert (await waiting).status == "succeeded"
    assert here.done() == ["b"]


async def test_timers_of_tasks_that_have_ended_are_tidied_away(here: Here) -> None:
    async with here.worker(spec={"takeover": 0.3}) as worker:
        task_id = await submitted(worker, wait("pause", "wait_for_time", seconds=100_000))
        await here.until("SELECT count(*) FROM procrastinate_jobs WHERE queue_name = 'timers'", "1\n")
        await worker.cancel(task_id)
        assert (await ended(worker, task_id)).status == "cancelled"
        await here.until("SELECT count(*) FROM procrastinate_jobs", "0\n")


async def test_no_worker_takes_a_task_that_a_file_has_until_it_is_taken_back(here: Here) -> None:
    async with here.worker() as worker:
        pause = wait("pause", "wait_for_time", "a", seconds=4)
        task_id = await submitted(worker, step("a", "do"), pause, step("b", "do", "pause"))
        await here.until(
            f"SELECT status, holder IS NULL FROM task WHERE task_id = '{task_id}'", "waiting|t\n"
        )
        moving = worker.export_tasks([task_id], move=True)
        async for _ in await moving.__aenter__():
            pass
        # Its time comes: the wake-up finds nobody who may take it.
        await here.until("SELECT count(*) FROM procrastinate_jobs", "0\n")
        summary = await worker.summary(task_id)
        assert (summary.status, bool(summary.given_away)) == ("waiting", True)
        assert await worker.take_back([task_id]) == [task_id]
        assert (await ended(worker, task_id)).status == "succeeded"
        with pytest.raises(StaleWriter, match="taken back"):
            await moving.__aexit__(None, None, None)
    assert here.done() == ["a", "b"]
