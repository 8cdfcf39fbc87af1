"""Cancellation at every single point of a call of the library: nothing is left, and the task can always be ended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from leak_real import held, held_at_rest
from run_tasks import FakeTool, bench, plan, step

from replan import Replan, tool
from replan.config import Settings
from replan.core.events import Record
from replan.errors import ReplanError, StoreBusy
from replan.llm.provider import open_model
from replan.ports import ModelReply, ModelRequest
from replan.run.service.event_stream import Line
from replan.store.sqlite import SqliteStore
from replan.testing import FakeSource, ScriptedEndpoint, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("young_garbage")]

ONE = plan(step("a", "hold"))


@tool(effect="reads")
async def hold() -> None:
    """Hold on until it is cancelled."""
    await asyncio.get_running_loop().create_future()


def points(*turns: int, then: tuple[int, ...]) -> list[Any]:
    """Where to cut, by turns of the loop; `then`: the proof's further ones."""
    return [*turns, *(pytest.param(one, marks=pytest.mark.prove) for one in then)]


async def cut_after(turns: int, work: Callable[[], Any]) -> bool:
    """Start something and cancel it after so many turns of the loop; True if that came too late."""
    task = asyncio.ensure_future(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    late = task.done()
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    return late


@pytest.mark.parametrize("turns", points(0, 1, 2, 4, 7, 11, 30, then=(3, 5, 6, 8, 9, 10, 15, 20, 100)))
async def test_a_caller_that_is_cancelled_anywhere_leaves_no_task_to_go_on(
    turns: int, tmp_path: Path
) -> None:
    settings = Settings(store={"synchronous": "full"})  # type: ignore[arg-type] # each write is waited for
    async with Replan(ScriptedModel({}), [hold], db=tmp_path / "r.db", settings=settings) as replan:
        await cut_after(turns, lambda: replan.run("do it", plan=ONE, evaluation="steps", timeout=60.0))
        for summary in await replan.tasks():
            assert summary.status == "cancelled", "it would go on with the next start"
            assert not summary.held


@pytest.mark.parametrize("turns", points(0, 1, 3, 10, then=(2, 5, 50)))
async def test_a_drive_that_is_cancelled_twice_has_given_its_task_back(turns: int, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "r.db", synchronous="full")
    source = FakeSource({"hold": FakeTool(delay_secs=1_000)})
    made = await bench(source, store=store)
    task_id = await made.submit(ONE)
    driving = asyncio.create_task(made.service.drive(task_id))
    while not source.running:  # noqa: ASYNC110
        await asyncio.sleep(0)
    driving.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    driving.cancel()
    await asyncio.wait({driving})
    assert driving.cancelled()
    assert not (await store.summary(task_id)).held
    await made.service.cancel(task_id)
    (await made.ran(task_id)).check()
    await store.aclose()


@pytest.mark.parametrize("turns", points(0, 1, 3, 6, 15, then=(2, 4, 5, 7, 8, 9, 25)))
async def test_a_close_that_is_cancelled_anywhere_keeps_no_thread_and_no_file(
    turns: int, tmp_path: Path
) -> None:
    class Model(ScriptedModel):
        async def aclose(self) -> None:
            for _ in range(5):
                await asyncio.sleep(0)

    source = FakeSource({"hold": FakeTool(delay_secs=1_000)})
    await asyncio.to_thread(int)
    before, others = held(), set(threading.enumerate())
    replan = Replan(Model({}), [source], db=tmp_path / "r.db")
    await replan.open()
    _ = replan._models["planning"]
    await replan.submit("do it", plan=ONE, evaluation="steps")
    await cut_after(turns, replan.aclose)
    await replan.aclose()
    assert len(asyncio.all_tasks()) == before.tasks
    after = await held_at_rest(others)
    assert not Counter(after.threads) - Counter(before.threads)
    assert not Counter(after.files) - Counter(before.files)


async def test_a_model_that_cannot_be_closed_keeps_nothing_open(tmp_path: Path) -> None:
    class Model(ScriptedModel):
        async def aclose(self) -> None:
            raise RuntimeError("stuck")

    before, others = held(), set(threading.enumerate())
    replan = Replan(Model({}), [hold], db=tmp_path / "r.db")
    await replan.open()
    _ = replan._models["planning"]
    with contextlib.suppress(RuntimeError):
        await replan.aclose()
    after = await held_at_rest(others)
    assert not Counter(after.threads) - Counter(before.threads)
    assert not Counter(after.files) - Counter(before.files)


async def test_a_watcher_whose_log_broke_leaves_no_reading_behind() -> None:
    async def broken() -> AsyncIterator[Record]:
        raise StoreBusy("locked")
        yield

    tasks = asyncio.all_tasks()
    news: asyncio.Queue[Record] = asyncio.Queue()
    news.put_nowait(Record(0, "t", 0.0, 1, None))  # type: ignore[arg-type]
    line = Line(broken(), news, None)
    await line.next()
    with contextlib.suppress(StoreBusy):
        news.put_nowait(Record(0, "t", 0.0, 1, None))  # type: ignore[arg-type]
        await line.next()
    line._next_news = asyncio.ensure_future(news.get())
    with contextlib.suppress(StoreBusy):
        await line.aclose()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("turns", points(0, 2, 12, 40, then=(1, 5, 100)))
async def test_first_questions_side_by_side_or_cut_off_share_one_client(turns: int) -> None:
    request = ModelRequest(
        role="planning", schema_name="execution_plan", json_schema={}, instructions="i", turns=()
    )
    with ScriptedEndpoint({"execution_plan": {"steps": []}}) as endpoint:
        await asyncio.to_thread(int)
        before = held().files.count("socket")
        model = open_model("", endpoint=endpoint.url)
        with contextlib.suppress(ReplanError):
            await cut_after(turns, lambda: model.ask(request))
        replies = await asyncio.gather(*(model.ask(request) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(reply, ModelReply) for reply in replies), replies
        await model.aclose()
    for thread in threading.enumerate():
        if thread.name.startswith("Thread-"):
            await asyncio.to_thread(thread.join, 10)
    assert held().files.count("socket") <= before


async def test_an_interrupt_in_the_middle_of_a_write_keeps_no_lock(tmp_path: Path) -> None:
    def work(_: object) -> None:
        raise KeyboardInterrupt

    store = SqliteStore(tmp_path / "r.db", busy_secs=0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            await store._writer.submit(work)
        await store._writer.submit(lambda _: None, large=True)
    finally:
        await store.aclose()
