"""A service whose database cannot be written for a while: what it drove goes on by itself, without a new start."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from access_world import Held
from run_tasks import plan, step
from service_here import service_here

from replan.core.events import TERMINAL
from replan.run.access.callers import LOCAL
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.access.use_cases import UseCases
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """No file of this process grows beyond the size of that one, as long as the context is open."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_tasks_whose_events_could_not_be_written_go_on_once_they_can(tmp_path: Path) -> None:
    source = Held({"look": FakeTool(output="seen")})
    options = SubmitOptions(plan=plan(step("a", "hold"), step("b", "look", "a")), evaluation="steps")
    async with asyncio.timeout(30), service_here(tmp_path, tools=[source]) as here:
        replan = here.replan
        cases = UseCases(replan.service, replan.serving())
        made = await cases.submit(LOCAL, SubmitRequest(task_description="x", options=options))
        await source.entered.wait()
        with full_disk(tmp_path / "tasks.db-wal"):
            source.let_go.set()
            while replan.drives(made.task_id):
                await replan.summary(made.task_id)
        assert (await replan.summary(made.task_id)).status not in ("succeeded", "failed")
        async for record in replan.service.follow(made.task_id, 0):
            if isinstance(record.event, TERMINAL):
                break
        assert (await replan.result(made.task_id)).succeeded
