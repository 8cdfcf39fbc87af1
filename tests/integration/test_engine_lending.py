"""Tasks that a tool starts where nobody sees that it waits for them: a place is lent, and never many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from replan import Replan, tool
from replan.config import Settings
from replan.engine.local import LocalEngine
from replan.testing import virtual_time


class Tools:
    """Tasks that each wait in a tool until they are told to end; some wait for another task."""

    def __init__(self, limit: int, lend_after: float = 5.0) -> None:
        self.running: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.quiet_since: dict[str, float] = {}
        self.asks_a_model: set[str] = set()
        self.engine = LocalEngine(self.drive, limit, still=self.still, lend_after=lambda _: lend_after)  # type: ignore[arg-type]

    def still(self, names: Collection[str]) -> float:
        now = asyncio.get_running_loop().time()
        if any(name not in self.quiet_since or name in self.asks_a_model for name in names):
            return 0.0
        return min(now - self.quiet_since[name] for name in names)

    def gets_on(self, name: str) -> None:
        self.quiet_since[name] = asyncio.get_running_loop().time()

    def end(self, name: str) -> None:
        self.ends.setdefault(name, asyncio.Event()).set()

    async def drive(self, name: str) -> str:
        self.running.append(name)
        self.gets_on(name)
        try:
            await self.ends.setdefault(name, asyncio.Event()).wait()
        finally:
            self.running.remove(name)
        return name

    async def started(self, *names: str) -> None:
        for name in names:
            self.engine.start(name)
        await turn()


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_task_that_came_last_is_lent_a_place_once_nothing_has_gone_on_for_so_long() -> None:
    async def main() -> None:
        tools = Tools(2)
        await tools.started("a", "b", "c", "d")
        await asyncio.sleep(4.9)
        assert tools.running == ["a", "b"]
        await asyncio.sleep(0.2)
        assert tools.running == ["a", "b", "d"]
        await tools.engine.aclose()

    virtual_time(main())


def test_each_place_more_is_lent_after_twice_the_time() -> None:
    async def main() -> list[int]:
        tools = Tools(1)
        await tools.started(*(f"t{n}" for n in range(20)))
        counts = []
        for secs in (6, 10, 20, 40, 80, 160):
            await asyncio.sleep(secs)
            counts.append(len(tools.running))
        await tools.engine.aclose()
        return counts

    assert virtual_time(main()) == [2, 3, 4, 5, 6, 7]


def test_a_place_that_was_lent_comes_back_and_is_lent_anew() -> None:
    async def main() -> None:
        tools = Tools(1)
        await tools.started("a", "b", "c")
        await asyncio.sleep(5.5)
        assert tools.running == ["a", "c"]
        tools.end("c")
        await asyncio.sleep(10.5)
        assert tools.running == ["a", "b"]
        await tools.engine.aclose()

    virtual_time(main())


@pytest.mark.parametrize("how", ["records something", "asks a model"])
def test_nothing_is_lent_while_one_of_those_that_hold_a_place_gets_on(how: str) -> None:
    async def main() -> None:
        tools = Tools(2)
        await tools.started("a", "b", "c")
        if how == "asks a model":
            tools.asks_a_model.add("b")
        for _ in range(30):
            await asyncio.sleep(3)
            tools.gets_on("b")
        assert tools.running == ["a", "b"]
        await tools.engine.aclose()

    virtual_time(main())


def test_tasks_that_were_there_before_all_that_hold_a_place_are_not_lent_one() -> None:
    """No tool of these can have started them."""

    async def main() -> None:
        tools = Tools(1)
        await tools.started("a", "b", "c", "d")
        tools.end("a")
        await turn()
        await asyncio.sleep(300)
        assert tools.running == ["b"]
        await tools.started("e")
        await asyncio.sleep(6)
        assert tools.running == ["b", "e"], "that one may be b's"
        await tools.engine.aclose()

    virtual_time(main())


def test_where_nothing_is_to_be_lent_it_is_only_said(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tools = Tools(1, lend_after=0)
        await tools.started("a", "b")
        await asyncio.sleep(100)
        assert tools.running == ["a"]
        await tools.engine.aclose()

    virtual_time(main())
    (line,) = [one.getMessage() for one in caplog.records if one.name == "replan"]
    assert "all 1 places of max_concurrent_tasks are held" in line
    assert "task b waits for one" in line


@hypothesis_settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 3), st.randoms(use_true_random=False))
def test_tasks_that_wait_for_tasks_all_end_however_they_are_nested(
    places: int, outer: int, depth: int, random: Any
) -> None:
    """Each task starts another one where nobody sees it, and ends when that one has ended."""

    async def main() -> int:
        ended: list[str] = []

        class Nested(Tools):
            async def drive(self, name: str) -> str:
                self.gets_on(name)
                if len(name) < 2 + depth:
                    inner = self.engine.start(name + "i")
                    await asyncio.sleep(random.random())
                    self.gets_on(name)
                    await inner
                ended.append(name)
                return name

        tools = Nested(places)
        async with asyncio.timeout(100_000):
            await asyncio.gather(*(tools.engine.start(f"{n:02}") for n in range(outer)))
        after = [f"x{n}" + "i" * depth for n in range(places + 1)]  # they start none
        for name in after:
            tools.engine.start(name)
        await turn()
        assert len(ended) == outer * (depth + 1) + places + 1, "no place is lost"
        return len(ended) - places - 1

    assert virtual_time(main()) == outer * (depth + 1)


@pytest.mark.parametrize("waited_for", [True, False])
def test_places_are_lent_sooner_where_that_has_set_others_going(waited_for: bool) -> None:
    async def main() -> float:
        class Outer(Tools):
            async def drive(self, name: str) -> str:
                self.gets_on(name)
                if name.startswith("inner"):
                    await asyncio.sleep(1)
                else:
                    inner = self.engine.start(f"inner {name}")
                    await (inner if waited_for else asyncio.sleep(30))
                return name

        tools, began = Outer(2), asyncio.get_running_loop().time()
        await asyncio.gather(*(tools.engine.start(str(n)) for n in range(40)))
        took = asyncio.get_running_loop().time() - began
        await tools.engine.aclose()
        return took

    took = virtual_time(main())
    assert took < 120 if waited_for else took > 300


def tight(places: int) -> Settings:
    loop = {"max_concurrent_tasks": places, "lend_place_after_secs": 0.1}
    return Settings.model_validate({"orchestrator": loop})


def one(name: str) -> dict[str, Any]:
    return {"steps": [{"step_id": "a", "tool": name}]}


@pytest.mark.anyio
@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize(
    "way", ["a worker", "a pool of threads", "a thread of its own", "asking again and again"]
)
async def test_a_tool_gets_the_task_that_it_has_started_where_it_is_not_seen_to_wait(
    tmp_path: Path, places: int, way: str
) -> None:
    loop, jobs = asyncio.get_running_loop(), asyncio.Queue[asyncio.Future[str]]()

    @tool(effect="reads")
    def leaf() -> str:
        return "leaf"

    async def inner() -> str:
        return (await replan.run("inner", plan=one("leaf"))).status

    def from_thread() -> str:
        return asyncio.run_coroutine_threadsafe(inner(), loop).result()

    async def work() -> None:
        while True:
            job = await jobs.get()
            job.set_result(await inner())

    @tool(effect="reads")
    async def by_worker() -> str:
        job = loop.create_future()
        await jobs.put(job)
        return await job

    @tool(effect="reads")
    async def by_pool() -> str:
        return await loop.run_in_executor(pool, from_thread)

    @tool(effect="reads")
    def by_thread() -> str:
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(from_thread()))
        thread.start()
        thread.join()
        return found[0]

    @tool(effect="reads")
    async def by_polling() -> str:
        task_id = await replan.submit("inner", plan=one("leaf"))
        while not (result := await replan.result(task_id)).is_success:  # noqa: ASYNC110 - it is what is tested
            await asyncio.sleep(0.01)
        return result.status

    tools: dict[str, Callable[..., Any]] = {
        "a worker": by_worker,
        "a pool of threads": by_pool,
        "a thread of its own": by_thread,
        "asking again and again": by_polling,
    }
    worker = asyncio.ensure_future(work())
    with ThreadPoolExecutor(places) as pool:
        async with Replan(
            tools=[tools[way], leaf],
            db=tmp_path / "x.db",
            settings=tight(places),
            evaluation="steps",
            task_timeout_secs=60,
        ) as replan:
            outer = (replan.run(f"outer {n}", plan=one(tools[way].__name__)) for n in range(places))
            results = await asyncio.gather(*outer)
    worker.cancel()
    assert {step.output for result in results for step in result.steps} == {"succeeded"}


@pytest.mark.anyio
async def test_where_nothing_is_set_a_place_is_lent_well_before_the_time_of_those_that_hold_them_is_up(
    tmp_path: Path,
) -> None:
    jobs = asyncio.Queue[asyncio.Future[str]]()

    @tool(effect="reads")
    def leaf() -> str:
        return "leaf"

    async def work() -> None:
        while True:
            job = await jobs.get()
            job.set_result((await replan.run("inner", plan=one("leaf"))).status)

    @tool(effect="reads")
    async def by_worker() -> str:
        job: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await jobs.put(job)
        return await job

    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": 2}})
    worker = asyncio.ensure_future(work())
    async with Replan(
        tools=[by_worker, leaf], db=tmp_path / "x.db", settings=settings, evaluation="steps"
    ) as replan:
        outer = (replan.run(f"outer {n}", plan=one("by_worker"), timeout=5) for n in range(2))
        results = await asyncio.gather(*outer)
    worker.cancel()
    assert [result.status for result in results] == ["succeeded"] * 2
