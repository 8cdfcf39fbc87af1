"""What changes something is carried through, whatever becomes of whoever has asked for it."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from pathlib import Path

import httpx2
import pytest
from access_world import ASKED, PLAIN, world
from service_here import service_here

from replan.run.access import requests as r
from replan.run.access.callers import LOCAL
from replan.run.access.use_cases import UseCases
from replan.testing import FakeSource, FakeTool

pytestmark = pytest.mark.anyio

READS = {
    "preview", "tasks", "task", "result", "events", "may_watch", "plans", "plan", "step", "output", "artifact",
    "waiting", "waits", "approval", "tools", "tool_stats", "workflows", "scenes", "may_measure",
}  # fmt: skip
NOT_BUILT = {"skip"}


def test_every_use_case_that_acts_is_carried_through() -> None:
    found = {
        name: one
        for name, one in inspect.getmembers(UseCases, inspect.isfunction)
        if not name.startswith("_")
    }
    carried = {name for name, one in found.items() if hasattr(one, "__wrapped__")}
    assert carried == found.keys() - READS - NOT_BUILT


async def test_what_a_caller_has_begun_is_done_although_it_has_gone(tmp_path: Path) -> None:
    async with world(tmp_path / "log.db") as there:
        made = await there.submit(ASKED)
        one = await there.waits(made.task_id)
        answer = r.ApprovalAnswer(approved=True, hash=one.hash)
        approving = asyncio.create_task(there.cases.approve(LOCAL, made.task_id, one.waiting_for.id, answer))
        submitting = asyncio.create_task(there.submit(task_id="other"))
        await asyncio.sleep(0)
        for task in (approving, submitting):
            task.cancel()
        await asyncio.gather(approving, submitting, return_exceptions=True)
        assert approving.cancelled()
        assert submitting.cancelled()
        await there.cases.carrying.all_ended()
        assert (await there.done(made.task_id)).succeeded
        assert (await there.done("other")).succeeded


async def test_a_task_whose_submitter_was_told_that_it_took_too_long_is_driven(tmp_path: Path) -> None:
    tools = [FakeSource({"look": FakeTool(output="seen")})]
    body = {"task_description": "x", "task_id": "late", "options": {"plan": PLAIN}}
    async with (
        service_here(tmp_path, tools=tools, request_timeout_secs=0.2) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False) as http,
    ):
        other = sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # nothing can be written before it has ended
        try:
            told = await http.post("/tasks", json=body)
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert (told.status_code, told.json()["type"]) == (504, "urn:replan:problem:timed-out")
        async with asyncio.timeout(20):
            while (await http.get("/tasks/late")).status_code == 404:
                pass
            async for record in here.replan.watch("late"):
                assert record.seq >= 0
        assert (await here.replan.result("late")).succeeded
