"""Workers whose model cannot be asked: what they have taken goes back, and others, or they themselves later, go on with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from workers_here import Here, ended

import workers as world
from replan.errors import ModelUnavailable
from replan.testing import ScriptedModel
from workers import SECS, step

pytestmark = pytest.mark.anyio

NO_KEY = ModelUnavailable("the endpoint refuses the key (401)", refused=True)
AWAY = ModelUnavailable("the endpoint cannot be reached", transient=True)


def answers(*first: Any) -> dict[str, Any]:
    plan = {"steps": [step("a", "do")]}
    return {
        "tool_selection": [*first, *[{"tools": [{"tool_id": "do", "score": 90, "reason": "it does"}]}] * 9],
        "execution_plan": [*first, *[plan] * 9],
    }


@asynccontextmanager
async def at_work(here: Here, *first: Any) -> AsyncIterator[Any]:
    stop, ready = asyncio.Event(), asyncio.Event()
    made = world.replan({**here.spec, "tools": ("do",)}, model=ScriptedModel(answers(*first)))
    async with made as replan:
        working = asyncio.create_task(replan.work(stop=stop, ready=ready.set))
        async with asyncio.timeout(SECS):
            await ready.wait()
        try:
            yield replan
        finally:
            stop.set()
            await working


@pytest.mark.parametrize("error", [NO_KEY, AWAY], ids=["its key is refused", "it cannot be reached"])
async def test_a_task_whose_model_cannot_be_asked_by_one_worker_goes_on_with_another(
    here: Here, error: ModelUnavailable
) -> None:
    async with at_work(here, *[error] * 9) as poor:
        await poor.submit("do it", task_id="t")
        await here.until("SELECT refused IS NOT NULL FROM task", "t\n")
        assert str(error) in here.sql("SELECT refused FROM task")
        why = await poor.why_waiting("t")  # not what it offers meanwhile, which is nothing
        assert (str(error) in why, "the model ''" in why) == (True, False), why
        async with at_work(here) as rich:
            assert (await ended(rich, "t")).status == "succeeded"
    assert here.done() == ["a"]


async def test_it_is_taken_again_by_the_same_worker_once_its_model_is_back(here: Here) -> None:
    async with at_work(here, AWAY) as worker:
        await worker.submit("do it", task_id="t")
        assert (await ended(worker, "t")).status == "succeeded"
    assert here.done() == ["a"]


async def test_meanwhile_a_worker_goes_on_with_what_needs_no_model(here: Here) -> None:
    async with at_work(here, *[NO_KEY] * 9) as worker:
        await worker.submit("do it", task_id="t")
        await here.until("SELECT refused IS NOT NULL FROM task", "t\n")
        await worker.submit("do it", plan={"steps": [step("b", "do")]}, task_id="plain")
        assert (await ended(worker, "plain")).status == "succeeded"
        assert (await worker.summary("t")).status not in ("failed", "waiting")
