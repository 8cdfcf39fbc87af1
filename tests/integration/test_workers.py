"""Tasks that workers take from the queue in PostgreSQL: wake-ups, waiting, capabilities, priorities and limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr
from workers_here import JOBS, Here, ended, here_on, submitted

import workers as world
from postgres_server import PostgresServer
from replan.core.events import CancelRequested, TaskSubmitted
from replan.core.limits.needs import WORK, Needs, Work
from replan.core.limits.policy import Policy
from replan.engine.procrastinate.queue import Queue
from replan.errors import ConfigError, InputError, TaskHeld
from replan.store.postgres.store import PostgresStore
from tcp_proxy import TcpProxy
from workers import SECS, step

pytestmark = pytest.mark.anyio


# ── wake-ups ──


async def test_a_task_and_its_wake_up_are_stored_together_and_the_same_request_wakes_nobody_twice(
    here: Here,
) -> None:
    async with here.replan() as replan:
        for _ in range(2):
            await submitted(replan, step("a", "do"), task_id="t", priority=3)
        assert here.sql(JOBS) == "t|3|todo\nt|3|todo\n", "asked again, it is woken again, which does no harm"
        with pytest.raises(InputError, match="exists already"):
            await submitted(replan, step("b", "do"), task_id="t")
        async with here.worker() as worker:
            assert (await ended(worker, "t")).status == "succeeded"
            await here.until(JOBS, "")
    assert here.done() == ["a"]


@pytest.mark.parametrize("lost", ["answer", "question"])
async def test_a_wake_up_is_there_if_and_only_if_its_event_is(
    here: Here, postgres_server: PostgresServer, lost: str
) -> None:
    with TcpProxy(postgres_server.port) as proxy:
        through = f"postgresql://replan@127.0.0.1:{proxy.port}/{here.address.rsplit('/', 1)[1]}"
        store = PostgresStore(through)
        try:
            await Queue(store.shared()).prepare()
            lose = proxy.lose_answers if lost == "answer" else proxy.lose_questions
            asked = TaskSubmitted(
                description="do it", settings={WORK: Work(priority=2).model_dump(mode="json")}
            )
            lose()
            assert await store.create("t", asked, 1.0)
            assert here.sql(JOBS) == "t|2|todo\n"
            lose()
            await store.signal("t", CancelRequested(), 2.0)
            assert here.sql(JOBS) == "t|2|todo\n" * 2
            assert not await store.create("t", asked, 1.0)
            assert here.sql(JOBS) == "t|2|todo\n" * 2
            assert await store.create("local", TaskSubmitted(description="here"), 1.0)
            await store.signal("local", CancelRequested(), 2.0)
            assert here.sql(JOBS) == "t|2|todo\n" * 2, "nobody is woken for a task that its submitter drives"
        finally:
            await store.aclose()


async def test_a_database_without_workers_needs_no_queue(here_anew: Here) -> None:
    store = PostgresStore(here_anew.address)
    try:
        await store.create("t", TaskSubmitted(description="do it"), 1.0)
        await store.signal("t", CancelRequested(), 2.0)
        assert here_anew.sql("SELECT to_regclass('procrastinate_jobs') IS NULL") == "t\n"
    finally:
        await store.aclose()


async def test_a_task_that_was_stored_before_there_was_a_queue_is_found_by_the_first_worker(
    here_anew: Here,
) -> None:
    store = PostgresStore(here_anew.address)
    try:
        plan = {"steps": [step("a", "do")]}
        settings = {WORK: Work().model_dump(mode="json")}
        asked = TaskSubmitted(
            description="do it", plan=plan, settings=settings, policy=Policy(evaluation="steps")
        )
        await store.create("t", asked, 1.0)
    finally:
        await store.aclose()
    async with here_anew.worker(spec={"takeover": 0.3}) as worker:
        assert (await ended(worker, "t")).status == "succeeded"


async def test_one_replan_works_once_at_a_time(here: Here) -> None:
    async with here.worker() as worker:
        with pytest.raises(InputError, match="one `work` at a time"):
            await worker.work()


async def test_many_processes_make_the_queue_at_once(here_anew: Here) -> None:
    stores = [PostgresStore(here_anew.address) for _ in range(4)]
    try:
        await asyncio.gather(*(Queue(store.shared()).prepare() for store in stores))
        assert here_anew.sql("SELECT count(*) FROM procrastinate_jobs") == "0\n"
    finally:
        await asyncio.gather(*(store.aclose() for store in stores))


async def test_a_timer_wakes_a_task_without_holding_up_other_wake_ups(here: Here) -> None:
    async with here.replan() as replan:
        task_id = await submitted(replan, step("a", "pay"))
        queue = Queue(replan.service.parts.store.shared())
        await queue.wake_later(task_id, 3_600.0)
        async with here.worker() as worker:
            assert (await ended(worker, task_id)).status == "waiting"
            await replan.approve(task_id)
            assert (await ended(replan, task_id)).status == "succeeded"
            other = await submitted(replan, step("b", "pay"))
            assert (await ended(worker, other)).status == "waiting"
            before = (await replan.summary(other)).last_seq
            await queue.wake_later(other, 0.0)
            await here.until(
                "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'replan.timer'", "1\n"
            )
            assert (await replan.summary(other)).last_seq == before, "there was nothing to do"


async def test_what_was_lost_on_the_way_is_found_again(here: Here) -> None:
    async with here.replan(takeover=0.3) as replan:
        task_id = await submitted(replan, step("a", "do"))
        here.sql("DELETE FROM procrastinate_jobs")
        async with here.worker(spec={"takeover": 0.3}) as worker:
            assert (await ended(worker, task_id)).status == "succeeded"


async def test_an_answer_that_woke_nobody_is_found(here: Here) -> None:
    async with here.replan(takeover=0.3) as replan:
        async with here.worker():
            task_id = await submitted(replan, step("a", "pay"))
            assert (await ended(replan, task_id)).status == "waiting"
        await replan.approve(task_id)
        here.sql(
            "DELETE FROM procrastinate_jobs; UPDATE task SET due = false"
        )  # as an older release leaves it
        async with here.worker(spec={"takeover": 0.3}), asyncio.timeout(SECS):
            while (await replan.summary(task_id)).status != "succeeded":
                pass


async def test_jobs_whose_answers_are_lost_are_all_done_once(
    here: Here, postgres_server: PostgresServer
) -> None:
    with TcpProxy(postgres_server.port) as proxy:
        through = f"postgresql://replan@127.0.0.1:{proxy.port}/{here.address.rsplit('/', 1)[1]}"
        async with here.replan() as replan, here.worker(spec={"address": through, "takeover": 3.0}):
            tasks = []
            for turn in range(12):
                tasks.append(await submitted(replan, step(f"s{turn}", "do")))
                (proxy.lose_answers if turn % 2 else proxy.lose_questions)()
            assert [(await ended(replan, task_id)).status for task_id in tasks] == ["succeeded"] * 12
        assert proxy.cuts
    assert sorted(here.done()) == sorted(f"s{turn}" for turn in range(12))


async def test_a_server_that_takes_no_writes_for_a_while_does_not_end_a_worker() -> None:
    server = PostgresServer()

    def writes(allowed: bool) -> None:
        server.sql(
            f"ALTER SYSTEM SET default_transaction_read_only = {'off' if allowed else 'on'}",
            "SELECT pg_reload_conf()",
        )

    try:
        with here_on(server.url(), server) as here:
            async with here.replan() as replan, here.worker():
                first = await submitted(replan, step("a", "hold"))
                arrival = await here.arrives()
                writes(False)
                arrival.let_go()
                await asyncio.sleep(1.5)  # it asks several times meanwhile
                writes(True)
                assert (await ended(replan, first)).status == "succeeded"
                assert (await ended(replan, await submitted(replan, step("b", "do")))).status == "succeeded"
    finally:
        server.close()


# ── waiting ──


async def test_a_task_that_waits_for_a_person_holds_no_worker_and_an_answer_has_it_driven_on(
    here: Here,
) -> None:
    async with here.replan() as replan, here.worker(concurrency=1) as worker:
        waiting = await submitted(replan, step("a", "pay"), step("b", "do", "a"))
        assert (await ended(replan, waiting)).status == "waiting"
        await here.until(JOBS, "")
        assert not (await replan.summary(waiting)).held
        assert (await ended(replan, await submitted(replan, step("x", "do")))).status == "succeeded"
        await replan.approve(waiting)
        assert (await ended(replan, waiting)).status == "succeeded", (
            "`wait` waits for whoever takes the answer up"
        )
        assert worker is not None
    assert here.done() == ["x", "a", "b"]


async def test_resume_has_a_task_driven_on_and_refuses_one_that_is_driven(here: Here) -> None:
    async with here.replan() as replan, here.worker():
        task_id = await submitted(replan, step("a", "hold"))
        arrival = await here.arrives()
        with pytest.raises(TaskHeld, match="by a worker"):
            await replan.resume(task_id)
        arrival.let_go()
        assert (await ended(replan, task_id)).status == "succeeded"


@pytest.mark.parametrize("begun", [True, False])
async def test_a_task_that_was_submitted_without_workers_is_handed_over_to_them(
    here: Here, begun: bool
) -> None:
    steps = [step("a", "pay"), step("b", "do", "a")]
    async with here.replan(kind="local") as local:
        task_id = await submitted(local, *steps) if begun else "new"
        if begun:
            assert (await ended(local, task_id)).status == "waiting"
            await local.approve(task_id)
        else:
            policy = Policy(evaluation="steps", interactive=True)
            event = TaskSubmitted(description="do it", plan={"steps": steps}, policy=policy)
            await local.service.parts.store.create(task_id, event, 1.0)
    async with here.replan() as replan, here.worker("do"):
        resuming = asyncio.create_task(replan.resume(task_id))
        async with asyncio.timeout(SECS):
            while "the tool 'pay'" not in await replan.why_waiting(task_id):
                pass
        async with here.worker():
            if not begun:
                assert (await resuming).status == "waiting"
                await replan.approve(task_id)
                assert (await ended(replan, task_id)).status == "succeeded"
            assert (await resuming).status == ("succeeded" if begun else "waiting")
    assert here.done() == ["a", "b"]


async def test_a_task_that_nobody_drives_is_cancelled_at_once_and_its_job_comes_to_nothing(
    here: Here,
) -> None:
    async with here.replan() as replan:
        task_id = await submitted(replan, step("a", "do"))
        await replan.cancel(task_id)
        assert (await ended(replan, task_id)).status == "cancelled"
        async with here.worker():
            assert (await ended(replan, await submitted(replan, step("b", "do")))).status == "succeeded"
    assert here.done() == ["b"]


async def test_a_cancelled_task_is_stopped_by_the_worker_that_drives_it(here: Here) -> None:
    async with here.replan() as replan, here.worker():
        task_id = await submitted(replan, step("a", "hold"))
        await here.arrives()
        await replan.cancel(task_id)
        assert (await ended(replan, task_id)).status == "cancelled"


# ── who takes what ──


async def test_a_worker_takes_only_tasks_whose_tools_it_has_and_the_others_say_what_they_wait_for(
    here: Here,
) -> None:
    async with here.replan() as replan:
        other = await submitted(replan, step("a", "hold"))
        assert "no worker is running" in await replan.why_waiting(other)
        async with here.worker("do"):
            mine = await submitted(replan, step("b", "do"))
            assert (await ended(replan, mine)).status == "succeeded"
            why = await replan.why_waiting(other)
            assert "the tool 'hold'" in why
            assert "the worker that is running does not" in why
            (line,) = await replan.waiting_lines()
            assert (line.queue, line.tasks, line.needs.tools, line.why) == ("default", 1, ("hold",), why)
            async with here.worker("hold"):
                (await here.arrives()).let_go()
                assert (await ended(replan, other)).status == "succeeded"
            assert await replan.why_waiting(other) == ""


async def test_a_task_says_that_all_places_are_taken_or_as_many_tasks_run_as_may(here: Here) -> None:
    async with here.replan() as replan, here.worker(concurrency=1):
        first = await submitted(replan, step("a", "hold"))
        held = await here.arrives()
        second = await submitted(replan, step("b", "hold"))
        assert await replan.why_waiting(second) == "the only place of the worker that could take it is taken"
        assert await replan.why_waiting(first) == ""
        async with here.worker("do"):
            assert "the only place of the worker" in await replan.why_waiting(second), (
                "the other has no 'hold'"
            )
        here.sql("UPDATE worker SET most = 1")
        assert "max_running_tasks = 1" in await replan.why_waiting(second)
        held.let_go()
        (await here.arrives()).let_go()
        assert (await ended(replan, second)).status == "succeeded"


async def test_a_worker_takes_only_tasks_whose_models_it_has(here: Here) -> None:
    async with here.replan("do") as replan, here.worker("do") as worker:
        settings = {WORK: Work(needs=Needs(models={"planning": "openai:other"})).model_dump(mode="json")}
        await replan.service.parts.store.create(
            "t", TaskSubmitted(description="do it", settings=settings), 1.0
        )
        await ended(replan, await submitted(replan, step("b", "do")))
        assert "the model 'openai:other' (planning)" in await worker.why_waiting("t")
        async with here.worker("do"):
            assert (await worker.why_waiting("t")).endswith(": none of the 2 workers does")


async def test_a_worker_of_some_queues_leaves_the_others_alone(here: Here) -> None:
    async with here.replan() as replan, here.worker(queues=["reports"]):
        other = await submitted(replan, step("a", "do"))
        mine = await submitted(replan, step("b", "do"), queue="reports")
        assert (await ended(replan, mine)).status == "succeeded"
        assert "no worker serves the queue 'default'" in await replan.why_waiting(other)
        async with here.worker(queues=["default", "more"]):
            assert (await ended(replan, other)).status == "succeeded"


async def test_a_higher_priority_comes_first(here: Here) -> None:
    async with here.replan() as replan, here.worker(concurrency=1):
        first = await submitted(replan, step("first", "hold"))
        arrival = await here.arrives()
        tasks = [await submitted(replan, step(f"p{n}", "do"), priority=n) for n in (-1, 5, 0)]
        arrival.let_go()
        for task_id in (first, *tasks):
            await ended(replan, task_id)
    assert here.done() == ["first", "p5", "p0", "p-1"]


async def test_all_workers_together_drive_no_more_than_the_limit(here: Here) -> None:
    spec = {"most": 2}
    async with here.replan() as replan, here.worker(spec=spec), here.worker(spec=spec):
        tasks = [await submitted(replan, step(f"s{n}", "hold")) for n in range(6)]
        for turn in range(3):
            pair = [await here.arrives(), await here.arrives()]
            why = await replan.why_waiting(tasks[-1])
            assert ("[engine] max_running_tasks = 2" in why) == (turn < 2), why
            assert here.gate.nobody()
            assert here.sql("SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'") == "2\n"
            for arrival in pair:
                arrival.let_go()
        assert [(await ended(replan, task_id)).status for task_id in tasks] == ["succeeded"] * 6


async def test_a_worker_that_cannot_go_on_with_a_task_gives_it_back_and_that_is_said(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hush-hush")
    async with here.replan() as replan:
        task_id = await submitted(replan, step("a", "do"), secrets={"token": "env:SOME_TOKEN"})
        monkeypatch.delenv("SOME_TOKEN")
        async with here.worker():
            async with asyncio.timeout(SECS):
                while (await replan.summary(task_id)).status != "waiting":
                    pass
            (key,) = (await replan.result(task_id)).waiting_for
            assert (key.kind, key.secrets) == ("key", ("token",))
            assert "the environment has no SOME_TOKEN" in key.text
            monkeypatch.setenv("SOME_TOKEN", "hush-hush")
            async with asyncio.timeout(SECS):
                while (await replan.summary(task_id)).status != "succeeded":
                    pass
        waits = [one.type for one in await replan.history(task_id)].count("task_waiting")
    assert waits == 1, "however often it was tried meanwhile"


# ── what cannot be ──


async def test_what_a_worker_cannot_have_is_refused_before_there_is_a_task(here: Here) -> None:
    async with here.replan() as replan:
        with pytest.raises(InputError, match="env:VARIABLE"):
            await submitted(replan, step("a", "do"), secrets={"token": SecretStr("hush")})
        with pytest.raises(InputError, match="none of them a colon"):
            await submitted(replan, step("a", "do"), queue="a:b")
        with pytest.raises(InputError, match="whole number"):
            await submitted(replan, step("a", "do"), priority="high")
        assert await replan.tasks() == []


async def test_workers_need_postgresql(tmp_path: Path) -> None:
    spec = {"folder": str(tmp_path), "address": str(tmp_path / "log.db")}
    with pytest.raises(ConfigError, match="PostgreSQL"):
        async with world.replan(spec):
            pass


async def test_queue_and_priority_are_for_workers(tmp_path: Path) -> None:
    from replan import Replan

    async with Replan(db=tmp_path / "log.db", evaluation="steps") as replan:
        with pytest.raises(InputError, match="procrastinate"):
            await replan.submit("do it", priority=1)
