"""What people do to tasks that workers drive: it is seen by whichever has the task, and a paused one holds none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from workers_here import Here, ended, submitted

from replan.core.limits.needs import FORKS
from replan.errors import InputError
from workers import SECS, step

pytestmark = pytest.mark.anyio
WAITING = "SELECT status, holder IS NULL FROM task WHERE task_id = 't'"


async def resumed(replan: Any, task_id: str) -> Any:
    async with asyncio.timeout(SECS):
        return await replan.resume(task_id)


async def test_a_paused_task_holds_no_worker_and_any_worker_goes_on_with_it(here: Here) -> None:
    async with here.replan() as person:
        async with here.worker(concurrency=1) as worker:
            await submitted(worker, step("a", "do_at_gate"), step("b", "do", "a"), task_id="t")
            call = await here.arrives()
            await person.pause("t", "lunch", "Ann")
            call.let_go()
            await here.until(WAITING, "waiting|t\n")
            assert (await ended(worker, await submitted(worker, step("c", "do")))).succeeded
            with pytest.raises(InputError, match="paused already by Ann"):
                await person.pause("t")
        async with here.worker():
            assert (await resumed(person, "t")).succeeded
    assert here.done() == ["a", "c", "b"]


async def test_a_task_that_no_worker_has_taken_yet_is_paused_too(here: Here) -> None:
    async with here.replan() as person:
        await submitted(person, step("a", "do"), task_id="t")
        await person.pause("t")
        async with here.worker() as worker:
            await here.until(WAITING, "waiting|t\n")
            assert (await ended(worker, await submitted(worker, step("c", "do")))).succeeded
            assert here.done() == ["c"]
            assert (await resumed(person, "t")).succeeded
    assert here.done() == ["c", "a"]


async def test_a_fork_is_taken_by_workers_that_know_forks_and_makes_no_effect_again(here: Here) -> None:
    async with here.replan() as person, here.worker() as worker:
        await submitted(worker, step("a", "do"), step("b", "do_at_gate", "a"), task_id="t")
        call = await here.arrives()
        fork = await person.fork("t", by="Ann")
        call.let_go()
        assert (await ended(person, "t")).succeeded
        assert (await ended(person, fork)).succeeded
        needs = here.sql(f"SELECT needs FROM task JOIN need USING (queue) WHERE task_id = '{fork}'")
        assert FORKS in needs
    assert here.done() == ["a", "b"]
