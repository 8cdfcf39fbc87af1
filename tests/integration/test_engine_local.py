"""Tasks of one process: so many at a time, the others in the order they came, and none waits in vain."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan import Replan, tool
from replan.config import Settings
from replan.core.limits.policy import Policy
from replan.engine.local import LocalEngine
from replan.run.service.tasks import Submission

pytestmark = pytest.mark.anyio


class Drives:
    """Tasks that end when they are told to."""

    def __init__(self, limit: int) -> None:
        self.running: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.most = 0
        self.engine = LocalEngine(self.drive, limit)  # type: ignore[arg-type]

    async def drive(self, task_id: str) -> str:
        self.running.append(task_id)
        self.most = max(self.most, len(self.running))
        try:
            await self.ends.setdefault(task_id, asyncio.Event()).wait()
        finally:
            self.running.remove(task_id)
        return task_id


async def test_a_task_that_comes_while_another_is_let_through_does_not_wait_in_vain() -> None:
    drives = Drives(1)
    first, second = drives.engine.start("first"), drives.engine.start("second")
    for _ in range(3):
        await asyncio.sleep(0)
    # All in one turn: the first ends and gives its place back, the third comes, and the second needs no place.
    drives.ends["first"].set()
    third = drives.engine.start("third")
    drives.engine.let_through("second")
    for _ in range(5):
        await asyncio.sleep(0)
    assert first.done()
    assert "third" in drives.running
    for name in ("second", "third"):
        drives.ends[name].set()
    await asyncio.wait({second, third})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["start", "end", "stop"]), st.integers(0, 5)), max_size=30),
    st.integers(1, 3),
)
def test_no_more_run_than_there_are_places_and_no_place_is_lost(
    steps: list[tuple[str, int]], limit: int
) -> None:
    async def main() -> None:
        drives = Drives(limit)
        tasks: dict[str, asyncio.Task[Any]] = {}
        for what, number in steps:
            name = str(number)
            if what == "start":
                drives.ends.pop(name, None)
                tasks[name] = drives.engine.start(name)
            elif what == "end" and name in drives.ends:
                drives.ends[name].set()
            elif what == "stop" and name in tasks:
                tasks[name].cancel()
            for _ in range(3):
                await asyncio.sleep(0)
            assert drives.engine.running == len(drives.engine.going())
            assert drives.engine.queued >= 0
        assert drives.most <= limit
        await drives.engine.aclose()
        again = [drives.engine.start(f"again {n}") for n in range(limit)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(drives.running) == limit
        for task in again:
            drives.ends[task.get_name()].set()
        await asyncio.gather(*again)

    asyncio.run(main())


async def test_a_task_that_is_let_through_needs_no_place_and_gives_none_back() -> None:
    drives = Drives(1)
    first, second, third = (drives.engine.start(name) for name in "abc")
    await asyncio.sleep(0)
    drives.engine.let_through("c")
    drives.engine.let_through("c")
    drives.engine.let_through("a")  # it is running
    for _ in range(3):
        await asyncio.sleep(0)
    assert drives.running == ["a", "c"]
    drives.ends["c"].set()
    await third
    assert drives.running == ["a"]
    drives.ends["a"].set()
    await first
    await asyncio.sleep(0)
    assert drives.running == ["b"]
    drives.ends["b"].set()
    await second


async def test_waiting_for_a_queued_task_that_is_cancelled_ends_at_once(tmp_path: Path) -> None:
    going, go = asyncio.Event(), asyncio.Event()

    @tool(effect="reads")
    async def hold() -> str:
        going.set()
        await go.wait()
        return "held"

    plan = {"steps": [{"step_id": "a", "tool": "hold"}]}
    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": 1}})
    async with Replan(tools=[hold], db=tmp_path / "x.db", settings=settings) as replan:
        first = await replan.submit("hold", plan=plan, evaluation="steps")
        await going.wait()
        second = await replan.submit("hold", plan=plan, evaluation="steps")
        waiting = asyncio.create_task(replan.wait(second))
        await asyncio.sleep(0)
        await replan.cancel(second)
        assert (await waiting).status == "cancelled"
        go.set()
        assert (await replan.wait(first)).succeeded


@pytest.mark.parametrize("others", [0, 3], ids=["next in the queue", "behind others"])
async def test_a_queued_task_that_another_process_cancels_ends_at_once(tmp_path: Path, others: int) -> None:
    going, go = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @tool(effect="reads")
    async def hold(n: int) -> str:
        ran.append(n)
        going.set()
        await go.wait()
        return "held"

    def plan(n: int) -> dict[str, Any]:
        return {"steps": [{"step_id": "a", "tool": "hold", "parameters": {"n": n}}]}

    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": 1}})
    async with Replan(tools=[hold], db=tmp_path / "x.db", settings=settings) as replan:
        first = await replan.submit("hold", plan=plan(0), evaluation="steps")
        await going.wait()
        between = [
            await replan.submit("hold", plan=plan(n), evaluation="steps") for n in range(1, 1 + others)
        ]
        last = await replan.submit("hold", plan=plan(9), evaluation="steps")
        waiting = asyncio.create_task(replan.wait(last))
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "replan.cli", "tasks", "cancel", last, "--db", f"sqlite:///{tmp_path / 'x.db'}",
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(60):
            assert (await waiting).status == "cancelled"
        assert await other.wait() == 0
        assert ran == [0], "and nobody else was let through"
        go.set()
        for task_id in (first, *between):
            assert (await replan.wait(task_id)).succeeded
    assert sorted(ran) == list(range(others + 1))


ROOMS = [1, 3]


def tight(places: int) -> Settings:
    return Settings.model_validate({"orchestrator": {"max_concurrent_tasks": places}})


def one(name: str, **parameters: Any) -> dict[str, Any]:
    return {"steps": [{"step_id": "a", "tool": name, "parameters": parameters}]}


@pytest.mark.parametrize("places", ROOMS)
@pytest.mark.parametrize("way", ["run", "submit and wait", "watch", "resume", "from a thread"])
async def test_tasks_within_tasks_do_not_wait_for_each_others_places(
    tmp_path: Path, places: int, way: str
) -> None:
    """An agent as a tool: as many outer tasks as there are places, and each waits for one of its own."""
    loop = asyncio.get_running_loop()

    async def inner(number: int) -> str:
        if way == "resume":
            task_id = f"before-{number}"
            return (await replan.resume(task_id)).status
        if way in ("submit and wait", "watch"):
            task_id = await replan.submit(f"inner {number}", plan=one("leaf"))
            if way == "watch":
                return [record.event.type async for record in replan.watch(task_id)][-1]
            return (await replan.wait(task_id)).status
        return (await replan.run(f"inner {number}", plan=one("leaf"))).status

    @tool(effect="reads")
    def leaf() -> str:
        return "leaf"

    @tool(effect="reads")
    async def sub(number: int) -> str:
        return await inner(number)

    @tool(effect="reads")
    def sub_in_thread(number: int) -> str:
        return asyncio.run_coroutine_threadsafe(inner(number), loop).result()

    async with Replan(
        tools=[sub, sub_in_thread, leaf],
        db=tmp_path / "x.db",
        settings=tight(places),
        evaluation="steps",
        task_timeout_secs=30,
    ) as replan:
        if way == "resume":
            for number in range(2 * places):
                await replan.service.submit(
                    Submission(
                        "left", Policy(evaluation="steps"), task_id=f"before-{number}", plan=one("leaf")
                    )
                )
        name = "sub_in_thread" if way == "from a thread" else "sub"
        results = await asyncio.gather(
            *(replan.run(f"outer {n}", plan=one(name, number=n)) for n in range(2 * places))
        )
        assert {result.status for result in results} == {"succeeded"}
        expected = "task_completed" if way == "watch" else "succeeded"
        assert {step.output for result in results for step in result.steps} == {expected}


async def test_tasks_nest_as_deep_as_their_tools_ask_for(tmp_path: Path) -> None:
    @tool(effect="reads")
    async def deeper(left: int) -> int:
        if left == 0:
            return 0
        result = await replan.run("deeper", plan=one("deeper", left=left - 1))
        return 1 + (await replan.output(result.task_id, "a"))

    async with Replan(
        tools=[deeper], db=tmp_path / "x.db", settings=tight(1), evaluation="steps", task_timeout_secs=30
    ) as replan:
        result = await replan.run("deep", plan=one("deeper", left=5))
        assert result.steps[0].output == 5


async def test_a_task_that_waits_for_its_own_end_is_told_so(tmp_path: Path) -> None:
    said: list[str] = []

    @tool(effect="reads")
    async def wait_for_me() -> str:
        try:
            await replan.wait("me")
        except Exception as error:
            said.append(str(error))
            raise
        return "never"

    async with Replan(tools=[wait_for_me], db=tmp_path / "x.db", evaluation="steps") as replan:
        result = await replan.run("me", task_id="me", plan=one("wait_for_me"), timeout=20)
        assert result.status == "failed"
    assert "would wait for its own end" in said[0]


@pytest.mark.parametrize("looks", [1, 3])
async def test_a_tool_that_looks_at_tasks_in_the_queue_sets_none_of_them_going(
    tmp_path: Path, looks: int
) -> None:
    running, most, queued = 0, 0, [f"t{n}" for n in range(12)]

    @tool(effect="reads", volatile=True)
    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    @tool(effect="reads")
    async def board() -> list[str]:
        for number, name in enumerate(queued):
            await replan.submit("work", task_id=name, plan=one("work", number=number))
        for _ in range(looks):
            told = [(await replan.result(name)).status for name in queued]
        return told

    settings = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": 2}})
    async with Replan(
        tools=[work, board], db=tmp_path / "x.db", settings=settings, evaluation="steps"
    ) as replan:
        result = await replan.run("show them", plan=one("board"))
        assert result.is_success
        await asyncio.gather(*(replan.wait(name) for name in queued))
    assert most <= 2


async def test_a_task_that_nobody_waits_for_within_another_takes_its_turn(tmp_path: Path) -> None:
    drives = Drives(1)
    outer = drives.engine.start("outer")
    other = drives.engine.start("other")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert drives.running == ["outer"]
    drives.engine.awaited("other")  # from without: it waits for its place like all
    await asyncio.sleep(0)
    assert drives.running == ["outer"]
    drives.ends["outer"].set()
    await outer
    await asyncio.sleep(0)
    drives.ends.setdefault("other", asyncio.Event()).set()
    await other
