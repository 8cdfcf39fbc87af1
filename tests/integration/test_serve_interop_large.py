"""Large results over A2A and AG-UI: in turn, as over HTTP, and with no memory of ours for readers that take nothing."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from access_world import PLAIN, SECS, world

from replan.run.access.callers import LOCAL
from replan.server.http.app import make_app
from replan.server.interop import mount
from replan.server.shared import Shared
from replan.server.streams.hub import Hub
from replan.server.turns import MOST_OF_A_KEY, Turns
from replan.testing import FakeTool

pytest.importorskip("a2a.types")
pytest.importorskip("ag_ui.core")
pytestmark = pytest.mark.anyio
LARGE = "x" * 300_000
RUN = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "m", "role": "user", "content": "A task"}],
    "forwardedProps": {"options": {"plan": PLAIN, "evaluation": "steps"}},
    "state": {},
    "tools": [],
    "context": [],
}


@contextlib.asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Shared, httpx2.AsyncClient]]:
    async with world(folder / "log.db", {"look": FakeTool(output=LARGE)}) as there:
        parts, settings = there.replan.service.parts, there.replan.settings
        server = settings.server.model_copy(update={"a2a": True, "ag_ui": True})
        hub = Hub(there.replan.service)
        here = Shared(there.cases, parts, settings.model_copy(update={"server": server}), hub)
        here.turns = Turns(most_secs=0.01)
        app = make_app(here)
        mount(app, here)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=SECS
        ) as client:
            yield here, client
        await hub.aclose()


async def asked(client: httpx2.AsyncClient, method: str, **params: Any) -> httpx2.Response:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post("/a2a", json=call, headers={"a2a-version": "1.0"})


async def test_they_come_whole_and_in_turn(tmp_path: Path) -> None:
    async with service(tmp_path) as (here, client):
        told = await client.post("/ag-ui", json=RUN)
        assert LARGE in told.text
        assert "RUN_FINISHED" in told.text
        (row,) = (await here.use_cases.tasks(LOCAL)).items
        answer = await asked(client, "GetTask", id=row.task_id)
        assert answer.json()["result"]["artifacts"][0]["parts"][0]["text"] == LARGE
        assert answer.headers["content-encoding"] == "gzip"
        assert LARGE not in (await asked(client, "ListTasks")).text
        assert LARGE in (await asked(client, "ListTasks", includeArtifacts=True)).text
        with contextlib.ExitStack() as held:
            for _ in range(MOST_OF_A_KEY):
                await held.enter_context(here.turns.turn(LOCAL)).begin()
            refused = await asked(client, "GetTask", id=row.task_id)
            assert "too-many" in refused.text
            assert (await asked(client, "ListTasks")).json()["result"]["tasks"][0]["id"] == row.task_id
            told = await client.post("/ag-ui", json=RUN)
            assert '"code":"too-many"' in told.text
            assert "send the run again" in told.text
        here.turns.untaken(LOCAL, 2**30)
        assert "too-many" in (await asked(client, "GetTask", id=row.task_id)).text
