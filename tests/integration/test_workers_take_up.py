"""Tasks that were begun without workers, whose process is gone: a worker goes on with those that it has everything for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr
from workers_here import JOBS, Here, ended, submitted

from workers import step

pytestmark = pytest.mark.anyio


def local(here: Here, *tools: str) -> Any:
    return here.replan(*tools, kind="local")


async def left(here: Here, *names: str, task_id: str) -> None:
    """One step is done, the next at the gate, and the process goes."""
    async with local(here) as replan:
        await submitted(replan, step("a", "do"), step("b", "hold", "a"), task_id=task_id)
        await here.arrives()


async def test_a_task_that_a_process_has_left_half_done_is_gone_on_with_by_a_worker(here: Here) -> None:
    await left(here, task_id="t")
    assert here.done() == ["a"]
    async with here.worker() as worker:
        (await here.arrives()).let_go()
        assert (await ended(worker, "t")).is_success
        assert (await worker.summary("t")).queue == "default"
    assert here.done() == ["a", "b"]


async def test_what_a_worker_cannot_go_on_with_or_a_living_process_has_is_left_alone(here: Here) -> None:
    async with local(here) as living:
        await submitted(living, step("a", "hold"), task_id="held")
        held = await here.arrives()
        async with local(here) as gone:
            await submitted(gone, step("a", "hold"), step("b", "block", "a", secs=0.0), task_id="lacks")
            await here.arrives()
            await submitted(gone, step("a", "hold"), task_id="secret", secrets={"pin": SecretStr("by hand")})
            await here.arrives()
        await left(here, task_id="t")
        async with here.worker("do", "hold") as worker:
            (await here.arrives()).let_go()
            assert (await ended(worker, "t")).is_success
        assert here.sql("SELECT task_id FROM task WHERE queue IS NULL ORDER BY id") == "held\nlacks\nsecret\n"
        held.let_go()
        assert (await ended(living, "held")).is_success


async def test_a_task_that_waits_for_a_place_in_a_living_process_is_taken_up_once_that_is_gone(
    here: Here,
) -> None:
    async with here.worker() as worker:
        async with here.replan(kind="local", places=1) as gone:
            await submitted(gone, step("a", "hold"), task_id="first")
            await here.arrives()
            await submitted(gone, step("a", "do"), task_id="second")
            assert here.sql("SELECT task_id FROM left_behind") == ""
        (await here.arrives()).let_go()
        for task_id in ("first", "second"):
            assert (await ended(worker, task_id)).is_success
    assert sorted(here.done()) == ["a", "a"]


async def test_a_driver_leaves_no_wake_ups_behind_that_came_before_it(here: Here) -> None:
    async with here.replan() as replan:
        for _ in range(5):
            await submitted(replan, step("a", "hold"), task_id="t")
        await submitted(replan, step("a", "do"), task_id="other", queue="nobody")
        assert here.sql(JOBS).count("t|0|todo") == 5
        async with here.worker(queues=["default"]) as worker:
            held = await here.arrives()
            assert here.sql(JOBS) == "t|0|doing\nother|0|todo\n"
            held.let_go()
            assert (await ended(worker, "t")).is_success
