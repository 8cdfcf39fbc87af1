"""A large output is written down beside the event loop: others go on meanwhile, and what is known to have happened is kept."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step

from replan import tool
from replan.core.data.pieces import weight
from replan.run.calls.attempts.room import MOST_HELD
from replan.run.steps.executor import LET_GO_SECS
from replan.testing import MemoryStore, virtual_time
from replan.tools.functions.source import FunctionSource

ROWS = [{"id": n, "name": f"row {n}"} for n in range(20_000)]
STOPS = ("a person", "the deadline", "whoever drives")


class Watched(list[Any]):
    """Rows that tell when somebody goes through them, and wait then until they may go on."""

    def __init__(self) -> None:
        super().__init__(ROWS)
        self.loop = asyncio.get_running_loop()
        self.reached = asyncio.Event()
        self.go = threading.Event()
        self.thread = 0

    def __iter__(self) -> Iterator[Any]:
        if not self.go.is_set():
            self.thread = threading.get_ident()
            self.loop.call_soon_threadsafe(self.reached.set)
            assert self.go.wait(30), "nobody else had a turn"
        return super().__iter__()


async def stopped(
    made: Bench, rows: Watched, by: str, secs: float, secrets: dict[str, Any]
) -> tuple[str, Ran | None]:
    """Run the task, stop it while its output is written down, and let that end so many seconds later."""
    budget = {"task_timeout_secs": 0.2 if by == "the deadline" else None}
    task_id = await made.submit(
        plan(step("a", "t"), step("b", "t", "a", parameters={"q": 2})), budget=budget, metadata=secrets
    )
    driving = asyncio.create_task(made.service.drive(task_id))
    await rows.reached.wait()
    if by == "a person":
        await made.service.cancel(task_id)
    elif by == "whoever drives":
        driving.cancel()
    asyncio.get_running_loop().call_later(secs, rows.go.set)
    with contextlib.suppress(asyncio.CancelledError):
        await driving
    assert rows.thread != threading.get_ident(), "in a thread of its own"
    return task_id, None if by == "whoever drives" else await made.ran(task_id)


@pytest.mark.parametrize("by", STOPS)
@pytest.mark.parametrize("secret", [False, True], ids=["", "with a secret"])
@pytest.mark.parametrize("effect", ["once", "reads"])
def test_an_output_that_is_being_written_down_is_no_output_lost(effect: Any, by: str, secret: bool) -> None:
    """However long that takes: longer than anything that is cancelled may take to stop."""

    async def main() -> None:
        rows = Watched()
        made = await bench({"t": FakeTool(lambda given: rows if "q" not in given else 1, effect=effect)})
        metadata = {"password": "row 77"} if secret else {}
        task_id, ran = await stopped(made, rows, by, 1.3 * LET_GO_SECS, metadata)
        if ran is None:
            ran = await made.drive(task_id)
            assert ran.result.is_success
            assert len(ran.events("call_completed", step_id="b")) == 1
        else:
            assert ran.result.status in ("cancelled", "failed", "timed_out")
        ran.check()
        assert len(ran.events("call_completed", step_id="a")) == 1
        assert not ran.events("call_failed", step_id="a")
        assert not ran.events("outcome_unknown")
        assert made.source.counts["t"] == (2 if by == "whoever drives" else 1)
        assert ran.statuses()["a"] == "succeeded"
        kept = await made.service.output(task_id, "a")
        assert len(kept) == len(ROWS)
        assert (kept[77]["name"] == "row 77") is not secret

    asyncio.run(main())


@pytest.mark.parametrize("by", STOPS)
@pytest.mark.parametrize("timeout", [None, 60], ids=["", "with a limit of its own"])
def test_what_a_function_returns_is_known_once_it_has_returned(timeout: float | None, by: str) -> None:
    made_calls = []

    async def main() -> None:
        rows = Watched()

        @tool(effect="once", timeout=timeout)
        async def t(q: int = 1) -> list[dict[str, Any]] | int:
            made_calls.append(q)
            return rows if q == 1 else q

        made = await bench(FunctionSource([t]))
        task_id, ran = await stopped(made, rows, by, 0.4 if by == "the deadline" else 0.0, {})
        if ran is None:
            ran = await made.drive(task_id)
        ran.check()
        assert len(ran.events("call_completed", step_id="a")) == 1
        assert not ran.events("outcome_unknown")
        assert made_calls == ([1, 2] if by == "whoever drives" else [1])

    asyncio.run(main())


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: ROWS * 2, id="rows"),
        pytest.param(lambda: {"data": {"rows": ROWS * 2, "more": "x" * 2_000_000}}, id="nested"),
        pytest.param(lambda: "some words and a bit more of them " * 200_000, id="text"),
    ],
)
@pytest.mark.parametrize("secret", [False, True], ids=["", "with a secret"])
def test_the_loop_has_its_turns_while_a_large_output_goes_through(made: Any, secret: bool) -> None:
    """Others are counted that run meanwhile: done at once, all of it would leave them some fifty turns."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> Ran:
        value = made()

        @tool(effect="once")
        async def t() -> Any:
            return value

        @tool(effect="reads")
        def count(q: Any) -> int:
            return len(q)

        table = await bench(FunctionSource([t, count]))
        wanted = plan(step("a", "t"))
        ticking = asyncio.create_task(others())
        try:
            return await table.run(wanted, metadata={"password": "row 1234"} if secret else {})
        finally:
            ticking.cancel()

    assert asyncio.run(main()).check().result.is_success
    assert turns > 300


@pytest.mark.parametrize("by", ["a person", "the deadline"])
def test_a_task_that_is_stopped_while_its_answer_is_checked_ends_as_stopped(by: str) -> None:
    """The driver itself waits then: nothing of the cancellation may be left over for whoever drives."""

    async def main() -> None:
        reached, go = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def check(_answer: Any) -> tuple[str, ...]:
            loop.call_soon_threadsafe(reached.set)
            assert go.wait(30)
            return ()

        made = await bench({"t": lambda _: "x" * 400_000})
        budget = {"task_timeout_secs": 0.2 if by == "the deadline" else None}
        task_id = await made.submit(plan(step("a", "t")), budget=budget, output_schema={"type": "string"})
        with made.service.parts.answer_checks.held(await made.service.name_of(task_id), check):
            driving = asyncio.create_task(made.service.drive(task_id))
            await reached.wait()
            if by == "a person":
                await made.service.cancel(task_id)
            loop.call_later(0.3, go.set)
            try:
                state = await driving
            finally:
                go.set()
        assert state.status == ("cancelled" if by == "a person" else "timed_out")
        assert (await made.ran(task_id)).check().statuses() == {"a": "succeeded"}

    asyncio.run(main())


def test_thousands_of_outputs_under_the_limit_are_not_all_held_and_are_what_they_were() -> None:
    """What the task has in memory of them is bounded, and a step that only waits for them reads none."""
    many, size = 260, 200_000
    read: list[str] = []

    class Counting(MemoryStore):
        async def artifact(self, task_id: str, artifact_id: str) -> bytes:
            read.append(artifact_id)
            return await super().artifact(task_id, artifact_id)

    async def main() -> Ran:
        tools = {
            "big": FakeTool(output=lambda given: f"{given['n']} ".ljust(size, "x"), effect="reads"),
            "length": FakeTool(output=lambda given: [len(given["text"]), given["text"][:4]], effect="reads"),
            "no": FakeTool(output=lambda given: len(read), effect="reads"),
        }
        made = await bench(tools, store=Counting())
        steps = [
            step("b", "big", for_each=list(range(many)), parameters={"n": "${item}"}),
            step("waits", "no", "b"),
            step("last", "length", "waits", parameters={"text": f"${{b.output[{many - 1}]}}"}),
            step("first", "length", "waits", parameters={"text": "${b.output[0]}"}),
        ]
        return (await made.drive(await made.submit(plan(*steps)))).check()

    ran = virtual_time(main())
    calls = ran.state.steps["b"].calls.values()
    outputs = [call.output for call in calls if call.output is not None]
    assert len(outputs) == many
    assert sum(weight(one.value, 10**9) for one in outputs) < MOST_HELD + size
    assert sum(one.artifact is None for one in outputs) >= MOST_HELD // size - 1
    found = ran.outputs()
    assert (found["first"], found["last"]) == ([size, "0 xx"], [size, f"{many - 1} "])
    assert found["waits"] == 0
