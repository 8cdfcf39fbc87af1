"""A call that waits for a task, however what is told of it and how it stands come to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("mcp")

import mcp_types as types
from access_world import ASKED, SECS, World, world
from mcp_world import ERAS, Mcp, accept, offering

from replan.run.access.callers import LOCAL, Caller
from replan.run.access.use_cases import UseCases
from replan.run.access.views import TaskView
from replan.server.mcp.following import Following
from replan.server.shared import Pace, Shared
from replan.server.streams.hub import Hub

pytestmark = pytest.mark.anyio


class Late(UseCases):
    """The first time it tells how a task stood before it came to wait, when it waits already."""

    def __init__(self, there: World) -> None:
        super().__init__(there.replan.service, there.replan.serving())
        self._there = there
        self._told = False

    async def task(self, caller: Caller, task_id: str) -> TaskView:
        view = await super().task(caller, task_id)
        if not self._told:
            self._told = True
            await self._there.waits(task_id)
            view = view.model_copy(update={"status": "executing", "last_seq": 2, "waiting_for": ()})
        return view


async def test_a_task_that_came_to_wait_while_it_was_looked_at_is_seen_to_wait(tmp_path: Path) -> None:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        pass

    async with world(tmp_path / "log.db") as there:
        made = await there.submit(ASKED)
        replan = there.replan
        hub = Hub(replan.service)
        here = Shared(use_cases=Late(there), parts=replan.service.parts, settings=replan.settings, hub=hub)
        following = Following(here, LOCAL, made.task_id, tell, None)
        async with asyncio.timeout(SECS):
            found = await following.outcome(10 * SECS, from_the_start=True)
        await hub.aclose()
    assert found.status == "waiting"
    assert [one.waiting_for.kind for one in found.waiting] == ["approval"]


@pytest.mark.parametrize("era", ERAS)
async def test_whoever_has_begun_a_task_sees_its_end_also_after_a_form(tmp_path: Path, era: str) -> None:
    caller = Caller("key:ann", "acme", frozenset({"run", "approve"}))
    async with offering(tmp_path, era=era, says=lambda _: accept(approve=True), caller=caller) as there:
        done = await there.call("run_task", task="pay", options={"plan": ASKED, "evaluation": "steps"})
        assert len(there.asked) == 1
    assert done["is_success"]


@pytest.mark.parametrize("begun", ["", "0" * 64, "ü", 7, None])
async def test_nobody_sees_a_task_by_a_state_that_was_made_up(tmp_path: Path, begun: object) -> None:
    caller = Caller("key:ann", "acme", frozenset({"run", "approve"}))
    async with offering(tmp_path, era=ERAS[1], says=lambda _: accept(approve=True), caller=caller) as there:
        other = await there.there.submit(ASKED, Caller("key:bob", "acme"))
        said = await _with_state(there, {"task_id": other.task_id, "in_vain": [], "begun": begun})
    assert "the scope 'read'" in said


async def _with_state(there: Mcp, state: object) -> str:
    arguments = {"task": "x", "options": {"plan": ASKED, "evaluation": "steps"}}
    params = types.CallToolRequestParams(
        name="run_task", arguments=arguments, request_state=json.dumps(state), input_responses={}
    )
    found = await there.client.session.send_request(
        types.CallToolRequest(params=params), types.CallToolResult
    )
    return str(found.content)


async def test_while_a_person_has_a_form_before_them_the_call_shows_that_it_lives(tmp_path: Path) -> None:
    """A client that hears nothing for a minute gives up on a call."""
    heard: list[Mcp] = []

    async def when_told(message: str) -> types.ElicitResult:
        async with asyncio.timeout(SECS):
            while sum("waiting for a person" in (one.message or "") for one in heard[0].told) < 3:
                heard[0].heard.clear()
                await heard[0].heard.wait()
        return accept(approve=True)

    async with offering(tmp_path, says=when_told) as there:
        heard.append(there)
        there.here.pace = Pace(beat_secs=0.01)
        options = {"plan": ASKED, "evaluation": "steps"}
        done = await there.call("run_task", task="pay", options=options)

    assert done["status"] == "succeeded"
    told = [one.progress for one in there.told]
    assert told == sorted(set(told))
