"""Tasks that no worker was asked for and no process has: a worker goes on with those that it has everything for, whichever way they came."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from workers_here import JOBS, Here, ended, submitted

from replan.errors import TaskEnded
from workers import SECS, step

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


async def test_a_task_whose_secrets_went_with_its_process_says_so_by_a_worker(here: Here) -> None:
    async with local(here) as gone:
        await submitted(gone, step("a", "hold"), task_id="secret", secrets={"pin": SecretStr("by hand")})
        await here.arrives()
    async with here.worker() as worker:
        async with asyncio.timeout(SECS):
            async for record in worker.service.follow("secret"):
                if record.type == "task_waiting":
                    break
        assert (await worker.summary("secret")).status == "waiting"
        (waits,) = (await worker.result("secret")).waiting_for
        assert (waits.kind, waits.secrets) == ("key", ("pin",))
    async with local(here) as again:
        going = asyncio.create_task(again.resume("secret", secrets={"pin": SecretStr("by hand")}))
        (await here.arrives()).let_go()
        assert (await going).is_success


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


WAITS = {
    "asks": step("w", "pay"),
    "sleeps": {"step_id": "w", "tool": "wait_for_time", "parameters": {"seconds": 2}, "dependencies": []},
    "called": {"step_id": "hook", "tool": "create_callback", "parameters": {}, "dependencies": []},
}
HEARD = {
    "step_id": "w", "tool": "wait_for_callback", "parameters": {"token": "${hook.output.token}", "limit_secs": 3600},
    "dependencies": ["hook"],
}  # fmt: skip


@pytest.mark.parametrize("begun", ["elsewhere", "for_workers", "fork"])
async def test_whichever_way_a_task_that_waits_has_come_a_worker_goes_on_with_it(
    here: Here, tmp_path: Path, begun: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replan.worker")

    def plan(name: str) -> list[dict[str, Any]]:
        return [WAITS[name], *([HEARD] if name == "called" else []), step("end", "do", "w")]

    kinds = {"elsewhere": ("local", str(tmp_path / "log.db")), "for_workers": ("procrastinate", here.address)}
    kind, address = kinds.get(begun, ("local", here.address))
    async with here.replan(kind=kind, address=address) as before:
        names = dict(zip(WAITS, WAITS, strict=True))
        async with contextlib.AsyncExitStack() as stack:
            if kind == "procrastinate":
                await stack.enter_async_context(here.worker())
            for name in WAITS:
                await submitted(before, *plan(name), task_id=name)
                async with asyncio.timeout(SECS):
                    while (await before.summary(name)).status != "waiting":
                        pass
        if begun == "fork":
            names = {name: f"{name}-2" for name in WAITS}
            for name, other in names.items():
                at = next(one.seq for one in await before.history(name) if one.type == "plan_generated")
                await before.fork(name, at=at, fork_id=other)
                with contextlib.suppress(TaskEnded):  # its time may have come meanwhile
                    await before.cancel(name)
                async with asyncio.timeout(SECS):
                    while (await before.summary(other)).status != "waiting":
                        pass
        else:
            async with before.export_tasks(list(WAITS), move=True) as pieces:
                data = b"".join([piece async for piece in pieces])
    if begun != "fork":
        async with here.replan(kind="local") as importing:
            await importing.import_tasks(
                _pieces(data), not_gone_on=True
            )  # also into the database that they left
    async with here.worker(spec={"takeover": 0.6}) as worker, asyncio.timeout(SECS):
        assert (await worker.wait(names["sleeps"])).is_success, "its time has come"
        await worker.approve(names["asks"])
        assert (await worker.wait(names["asks"])).is_success
        (token,) = [
            one.id for one in (await worker.result(names["called"])).waiting_for if one.kind == "callback"
        ]
        await worker.signal(names["called"], token, 7)
        assert (await worker.wait(names["called"])).is_success
    assert sorted(here.done()) == ["end", "end", "end", "w"]
    taken = [said for one in caplog.records if (said := one.getMessage()).startswith(f"took {names['asks']}")]
    assert f", last driven by process {os.getpid()}" in taken[-1], "its log says who had it"


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_a_paused_task_that_nobody_has_is_taken_up_once_it_is_resumed(here: Here) -> None:
    await left(here, task_id="t")
    async with here.replan() as replan:
        await replan.pause("t")
        async with here.worker(spec={"takeover": 0.6}) as worker:
            resuming = asyncio.create_task(replan.resume("t"))
            (await here.arrives()).let_go()
            async with asyncio.timeout(SECS):
                assert (await resuming).is_success
            assert (await worker.summary("t")).queue == "default"
    assert here.done() == ["a", "b"]


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
