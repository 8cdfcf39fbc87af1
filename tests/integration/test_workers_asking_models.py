"""Plans whose steps ask a model, taken by workers: one without that model leaves them to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asking_models import LABEL, asks
from workers_here import Here, ended

import workers as world
from replan.testing import ScriptedModel
from workers import SECS, step

pytestmark = pytest.mark.anyio
PLAN = {"steps": [step("a", "do"), asks("sorted", "a", input="It broke", schema=LABEL)]}


def sorting(name: str) -> ScriptedModel:
    return ScriptedModel({"step_answer": {"answer": {"label": "bad"}}}, name=name)


@asynccontextmanager
async def at_work(here: Here, **options: Any) -> AsyncIterator[Any]:
    stop, ready = asyncio.Event(), asyncio.Event()
    async with world.replan({**here.spec, "tools": ("do",)}, **options) as replan:
        working = asyncio.create_task(replan.work(stop=stop, ready=ready.set))
        async with asyncio.timeout(SECS):
            await ready.wait()
        try:
            yield replan
        finally:
            stop.set()
            await working


async def test_a_worker_without_the_model_of_the_steps_leaves_the_task_to_one_that_has_it(here: Here) -> None:
    async with at_work(here) as poor, at_work(here, model=sorting("other")):
        async with world.replan({**here.spec, "tools": ("do",)}, model=sorting("wanted")) as replan:
            await replan.submit("sort it", plan=PLAN, task_id="t")
            await replan.submit("do it", plan={"steps": [step("b", "do")]}, task_id="plain")
            assert (await ended(poor, "plain")).status == "succeeded"
            why = await replan.why_waiting("t")
            assert "the model 'wanted'" in why
        async with at_work(here, model={"step": sorting("wanted")}) as rich:
            result = await ended(rich, "t")
    assert result.status == "succeeded"
    assert result.output == {"label": "bad"}
    assert here.done() == ["b", "a"]
