"""Signs of life on a stream whose form leaves out what happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from access_world import SECS, world
from run_tasks import plan, step

from replan.core.events import LlmToken
from replan.run.access.callers import LOCAL
from replan.run.access.shown import Showing
from replan.server.streams.hub import Hub
from replan.server.streams.sse import Sse

pytestmark = pytest.mark.anyio


async def test_what_is_left_out_in_a_form_takes_the_place_of_no_sign_of_life(tmp_path: Path) -> None:
    token = LlmToken(call_id="c", role="planning", text="x")
    async with world(tmp_path / "log.db") as there:
        made = await there.submit(plan(step("a", "hold")))
        await there.source.entered.wait()
        row = await there.cases.may_watch(LOCAL, made.task_id)
        feed, hub = there.replan.service.parts.feed, Hub(there.replan.service, beat_secs=600)
        with (
            hub.watch(row, row.last_seq, Sse(Showing(light=True))) as light,
            hub.watch(row, row.last_seq, Sse(Showing())) as full,
        ):
            async with asyncio.timeout(SECS):
                coming = [asyncio.create_task(one.next()) for one in (light, full)]
                while not feed.heard(made.task_id):  # noqa: ASYNC110 -- whoever is to hear it begins in a task of its own
                    await asyncio.sleep(0)
                hub.beats += 1
                feed.tell(made.task_id, token, 0.0, 1)
                nothing, told = await asyncio.gather(*coming)
        assert nothing == []
        assert len(told) == 1
        await hub.aclose()
        there.source.let_go.set()
