"""Workers are killed, frozen, cut off and told to end: others go on with their tasks, and nothing is done twice."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import workers as world
from postgres_server import PostgresServer
from replan.engine.procrastinate.busy_watch import computed
from tcp_proxy import TcpProxy
from workers import SECS, Workers, step

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork, pidfd and SIGSTOP"),
]
STEPS = [step("a", "do"), step("b", "hold", "a"), step("c", "do", "b")]


@pytest.fixture
def workers(postgres_database: str) -> Iterator[Workers]:
    with (
        TemporaryDirectory(prefix="rpw", dir="/tmp") as folder,  # short: a socket's path is
        Workers(Path(folder), postgres_database) as made,
    ):
        yield made


def submitter(workers: Workers) -> Any:
    return world.replan({"folder": str(workers.folder), "address": workers.address})


async def arrives(workers: Workers) -> world.Arrival:
    return await asyncio.to_thread(workers.gate.next)


async def submitted(replan: Any, *steps: dict[str, Any], **options: Any) -> str:
    task_id: str = await replan.submit("do it", plan={"steps": list(steps)}, **options)
    return task_id


async def check_succeeded(replan: Any, task_id: str) -> None:
    async with asyncio.timeout(SECS):
        result = await replan.wait(task_id)
    assert result.status == "succeeded", result.failure
    records = await replan.history(task_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1)), "the log has no gap"


def jobs(server: PostgresServer, workers: Workers) -> str:
    return server.sql(
        "SELECT status, args ->> 'task_id' FROM replan.procrastinate_jobs ORDER BY id",
        database=workers.address.rsplit("/", 1)[1],
    )


async def test_the_task_of_a_killed_worker_is_taken_over(workers: Workers) -> None:
    first = workers.start()
    async with submitter(workers) as replan:
        task_id = await submitted(replan, *STEPS)
        assert (await arrives(workers)).pid == first.pid
        second = workers.start()
        first.kill()
        again = await arrives(workers)
        assert (again.pid, again.name) == (second.pid, "b")
        again.let_go()
        await check_succeeded(replan, task_id)
    assert workers.journal() == [
        ("a", task_id, first.pid),
        ("b", task_id, second.pid),
        ("c", task_id, second.pid),
    ]


async def test_the_log_of_a_worker_says_whom_it_has_taken_a_task_over_from(
    workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replan.worker")
    first = workers.start()
    gone = f"process {first.pid} on {platform.node()}"
    stop = asyncio.Event()
    async with submitter(workers) as replan:
        await submitted(replan, step("a", "hold"), task_id="t")
        assert (await arrives(workers)).pid == first.pid
        working = asyncio.create_task(replan.work(stop=stop))
        first.kill()
        (await arrives(workers)).let_go()
        await check_succeeded(replan, "t")
        stop.set()
        await working
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [f"{gone} is gone: back into the queue: t", f"took t, last driven by {gone}"]
    assert said[2].startswith("t has ended: succeeded, ")


async def test_a_frozen_worker_is_fenced_when_it_wakes_and_works_on(
    workers: Workers, postgres_server: PostgresServer
) -> None:
    first = workers.start(concurrency=1, queues=["default", "first"])
    async with submitter(workers) as replan:
        task_id = await submitted(replan, *STEPS[:2], step("c", "hold", "b"))
        held = await arrives(workers)
        second = workers.start()
        first.kill(signal.SIGSTOP)
        again = await arrives(workers)
        assert (again.pid, again.name) == (second.pid, "b")
        again.let_go()
        last = await arrives(workers)
        assert (last.pid, last.name) == (second.pid, "c")

        other = await submitted(replan, step("x", "do"), queue="first")
        first.kill(signal.SIGCONT)
        held.let_go()  # its call of b ends now, and nobody wants to know
        await check_succeeded(replan, other)  # by the first one, which has let go of the other by now
        assert jobs(postgres_server, workers) == f"doing|{task_id}\n", "what it has ended was not its own"
        last.let_go()
        await check_succeeded(replan, task_id)
    assert [name for name, task, pid in workers.journal() if task == task_id and pid == second.pid] == [
        "b",
        "c",
    ]
    assert [name for name, task, pid in workers.journal() if task == task_id and pid == first.pid] == [
        "a",
        "b",
    ]
    assert workers.done(other) == ["x"]


@pytest.mark.parametrize("how", ["cut", "mute"])
async def test_a_worker_that_is_cut_off_is_fenced_when_it_is_back_and_works_on(
    workers: Workers, postgres_server: PostgresServer, how: str
) -> None:
    with TcpProxy(postgres_server.port) as proxy:
        cut_off = f"postgresql://replan@127.0.0.1:{proxy.port}/{workers.address.rsplit('/', 1)[1]}"
        first = workers.start(address=cut_off, concurrency=1, queues=["default", "first"])
        async with submitter(workers) as replan:
            task_id = await submitted(replan, *STEPS)
            held = await arrives(workers)
            second = workers.start(queues=["default"])
            if how == "mute":
                proxy.mute = True
            else:
                proxy.refuses = True
                proxy.cut_all()
            again = await arrives(workers)
            assert (again.pid, again.name) == (second.pid, "b")
            again.let_go()
            await check_succeeded(replan, task_id)
            other = await submitted(replan, step("x", "do"), queue="first")
            held.let_go()
            proxy.mute = proxy.refuses = False
            await check_succeeded(replan, other)
        assert ("x", other, first.pid) in workers.journal()
        assert workers.done(task_id).count("a") == workers.done(task_id).count("c") == 1


async def test_a_worker_that_is_told_to_end_lets_calls_end_and_hands_the_rest_over(workers: Workers) -> None:
    first = workers.start()
    async with submitter(workers) as replan:
        task_id = await submitted(replan, step("a", "do"), step("b", "do_at_gate", "a"), step("c", "do", "b"))
        held = await arrives(workers)
        second = workers.start()
        first.kill(signal.SIGTERM)
        other = await submitted(replan, step("x", "do"))
        await check_succeeded(replan, other)
        held.let_go()
        first.ended()
        assert first.left_cleanly
        await check_succeeded(replan, task_id)
    assert [one for one in workers.journal() if one[1] == task_id] == [
        ("a", task_id, first.pid),
        ("b", task_id, first.pid),
        ("c", task_id, second.pid),
    ]
    assert workers.journal()[1][0] == "x" or ("x", other, second.pid) in workers.journal()


async def test_what_does_not_end_in_time_is_cut_off_and_handed_over(workers: Workers) -> None:
    first = workers.start(grace=0.2)
    async with submitter(workers) as replan:
        task_id = await submitted(replan, *STEPS)
        await arrives(workers)
        second = workers.start()
        first.kill(signal.SIGTERM)
        again = await arrives(workers)
        assert (again.pid, again.name) == (second.pid, "b")
        first.ended()
        assert first.left_cleanly
        again.let_go()
        await check_succeeded(replan, task_id)


async def test_a_tool_that_computes_and_lets_no_thread_run_does_not_lose_the_task(workers: Workers) -> None:
    first = workers.start(takeover=6.0)
    async with submitter(workers) as replan:
        beside = await submitted(replan, step("b", "hold"))
        held = await arrives(workers)
        task_id = await submitted(replan, step("a", "grind", secs=5.5))
        while (await replan.summary(task_id)).status == "queued":
            pass
        workers.start(takeover=6.0)
        await check_succeeded(replan, task_id)
        held.let_go()
        await check_succeeded(replan, beside)
    assert workers.journal() == [("a", task_id, first.pid), ("b", beside, first.pid)]


async def test_a_worker_that_is_killed_while_a_tool_lets_no_thread_run_is_gone_and_the_call_in_doubt(
    workers: Workers,
) -> None:
    first = workers.start()
    async with submitter(workers) as replan:
        task_id = await submitted(replan, step("a", "grind", secs=30))
        async with asyncio.timeout(SECS):
            while "call_started" not in [one.type for one in await replan.history(task_id)]:
                pass
        workers.start()
        first.kill()
        async with asyncio.timeout(SECS):
            assert (await replan.wait(task_id)).status == "waiting"
        (asked,) = (await replan.result(task_id)).waiting_for
    assert asked.kind == "outcome"
    assert workers.journal() == []


def test_only_a_process_that_runs_is_seen_to_compute() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import time\nprint(flush=True)\ntime.sleep(60)"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert computed(child.pid) is not None
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert computed(child.pid) is None
        child.kill()
        child.wait()
        assert computed(child.pid) is None


async def test_a_process_that_stands_still_with_all_its_threads_is_taken_for_gone(workers: Workers) -> None:
    first = workers.start(takeover=2.0)
    async with submitter(workers) as replan:
        await submitted(replan, step("b", "hold"))
        await arrives(workers)
        await submitted(replan, step("a", "stall", secs=SECS))
        second = workers.start(tools=["hold"], takeover=2.0)
        assert (await arrives(workers)).pid == second.pid
        first.kill()


async def test_a_tool_that_holds_up_its_event_loop_does_not_lose_the_task(workers: Workers) -> None:
    workers.start(queues=["default"])
    async with submitter(workers) as replan:
        task_id = await submitted(
            replan, step("long", "block", secs=2.5 * world.TAKEOVER_SECS), step("c", "do", "long")
        )
        workers.start(queues=["default"])
        await check_succeeded(replan, task_id)
    assert workers.done(task_id) == ["long", "c"]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.prove)])
async def test_a_database_that_is_away_for_long_takes_no_task_from_a_living_worker(
    how: signal.Signals,
) -> None:
    server = PostgresServer(fsync=True)
    try:
        with (
            TemporaryDirectory(prefix="rpw", dir="/tmp") as folder,
            Workers(Path(folder), server.url()) as workers,
        ):
            first = workers.start()
            async with submitter(workers) as replan:
                task_id = await submitted(replan, *STEPS)
                held = await arrives(workers)
                second = workers.start()
                server.stop(how)
                await asyncio.sleep(1.5 * world.TAKEOVER_SECS)  # so long nobody can say that he lives
                await asyncio.to_thread(server.start)
                held.let_go()
                await check_succeeded(replan, task_id)
                first.kill(signal.SIGTERM)
                other = await submitted(replan, step("x", "do"))
                await check_succeeded(replan, other)
            assert workers.journal()[:3] == [(name, task_id, first.pid) for name in "abc"]
            assert workers.journal()[3][0] == "x"
            assert second.pid != first.pid
    finally:
        server.close()
