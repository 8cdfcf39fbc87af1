"""A late answer belongs to the process: another Replan, in the same event loop or in another, waits for it as well."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, TaskResult, ToolContext, tool
from replan.core.state.task import TaskName
from replan.run.session.late_answers import LateAnswers
from replan.testing import ScriptedModel

PLAN = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"to": "Ann"}}]}


class Bank:
    """A payment that takes effect when it is let go on, whoever has stopped waiting for it."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.entered, self.goes_on = threading.Event(), threading.Event()
        self.calls: list[str] = []
        self.book: list[str] = []
        self.looks = 0

    def tool(self) -> Any:
        def look(ctx: ToolContext) -> dict[str, int] | None:
            self.looks += 1
            return {"id": 1} if ctx.key in self.book else None

        @tool(effect="once", verify=look, verify_after_secs=0.0)
        def pay(to: str, ctx: ToolContext) -> dict[str, int]:
            """Pay."""
            self.calls.append(ctx.key)
            self.entered.set()
            self.goes_on.wait()
            if self.refuses:
                raise ValueError("no account of that name")
            self.book.append(ctx.key)
            return {"id": len(self.book)}

        return pay


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("another_loop", [False, True])
def test_a_thread_that_goes_on_is_waited_for_by_the_replan_that_takes_its_task_up(
    tmp_path: Path, another_loop: bool, refuses: bool
) -> None:
    bank = Bank(refuses)

    def replan() -> Replan:
        model = ScriptedModel({})
        return Replan(model, tools=[bank.tool()], db=str(tmp_path / "tasks.db"), evaluation="steps")

    async def begin() -> None:
        async with replan() as one:
            await one.submit("Pay Ann", plan=PLAN, task_id="t1")
            await asyncio.to_thread(bank.entered.wait)

    async def go_on() -> TaskResult:
        async with replan() as one:
            resumed = asyncio.create_task(one.resume("t1"))
            async for record in one.watch("t1"):
                if record.event.type == "task_resumed":
                    break
            bank.goes_on.set()
            return await resumed

    async def both() -> TaskResult:
        await begin()
        return await go_on()

    if another_loop:
        asyncio.run(begin())
        result = asyncio.run(go_on())
    else:
        result = asyncio.run(both())
    assert len(bank.calls) == 1
    assert bank.looks == 0, "nothing else is asked while our own thread runs"
    assert result.succeeded is not refuses
    assert bank.book == ([] if refuses else bank.calls)


NAMED = (TaskName("t", 1.0), "k.1")


def test_an_answer_of_another_loop_is_waited_for_here() -> None:
    late = LateAnswers()
    told, waits = threading.Event(), threading.Event()

    def there() -> None:
        async def main() -> None:
            answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            late.expect(NAMED, answer)
            told.set()
            await asyncio.to_thread(waits.wait)
            answer.set_result("paid")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        asyncio.run(main())

    async def here() -> str:
        await asyncio.to_thread(told.wait)
        answer = late.of(NAMED)
        assert answer is not None
        waits.set()
        await asyncio.wait({answer})
        return str(answer.result())

    thread = threading.Thread(target=there)
    thread.start()
    assert asyncio.run(here()) == "paid"
    thread.join()


def test_a_task_ends_with_its_loop_and_a_thread_does_not() -> None:
    late = LateAnswers()
    of_thread: Future[str] = Future()

    async def begin(answer: Future[str] | None) -> None:
        late.expect(NAMED, answer or asyncio.get_running_loop().create_future())

    async def look() -> bool:
        return late.of(NAMED) is not None

    asyncio.run(begin(None))
    assert not asyncio.run(look())
    asyncio.run(begin(of_thread))
    assert asyncio.run(look())
