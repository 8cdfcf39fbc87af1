"""A place is a task's own: whatever a tool raises, whenever, the others get theirs, and the fault is the tool's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_tasks import Ran, bench, plan, step, verdict
from test_run_recovery import reflection

from replan import tool
from replan.tools.functions.source import FunctionSource

pytestmark = pytest.mark.anyio


class NoArgs(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        return None


class NoWords(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Odd(Exception):
    args = property(lambda self: 1 / 0)  # type: ignore[assignment]


async def group() -> Any:
    async def child() -> None:
        raise ValueError("the child broke")

    async with asyncio.TaskGroup() as children:
        children.create_task(child())
        children.create_task(asyncio.sleep(30))


async def group_that_waits() -> Any:
    async def child() -> None:
        await asyncio.sleep(0)
        raise ValueError("the child broke")

    async with asyncio.TaskGroup() as children:
        children.create_task(child())
        await asyncio.sleep(30)


async def group_that_is_taken_apart() -> Any:
    try:
        await group()
    except* ValueError as error:
        raise ValueError("the child broke") from error


def raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    async def raises() -> Any:
        raise error()

    return raises


async def run(works: Sequence[Callable[[], Any]]) -> Ran:
    left = list(works)

    @tool(effect="reads")
    async def work(n: int) -> str:
        """Work on the n-th."""
        return str(await left.pop(0)()) if left else "worked"

    @tool(effect="reads")
    def other() -> str:
        """Something else."""
        return "other"

    remedies = [reflection("retry_with_params", {"n": n}) for n in (2, 3)]
    steps = plan(step("a", "work", parameters={"n": 1}), step("b", "other"))
    answers = {"execution_plan": steps, "evaluation": verdict(), "step_reflection": remedies}
    made = await bench(FunctionSource([work, other]), answers)
    return (await made.run(parallel_max_concurrent=1)).check()


@pytest.mark.parametrize(
    "work",
    [group, group_that_waits, group_that_is_taken_apart, *map(raising, [NoArgs, NoWords, Odd, lambda: ExceptionGroup("g", [NoArgs()])])],
)  # fmt: skip
async def test_it_is_recovered_like_any_other_fault(work: Callable[[], Any]) -> None:
    ran = await run([work])
    assert ran.result.is_success, ran.result.failure
    assert [call.status for call in ran.state.steps["a"].calls.values()] == ["succeeded"]


@pytest.mark.parametrize("error", [NoArgs, NoWords, Odd])
async def test_it_may_come_in_a_retry_too(error: Callable[[], BaseException]) -> None:
    ran = await run([raising(lambda: ValueError("first")), raising(error)])
    assert ran.result.is_success, ran.result.failure
    assert ran.state.steps["b"].status == "succeeded"
