"""How calls are made beside the plain way: HEAD, headers sent twice, HTTP/1.0, and keys that are tried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import httpx2
import pytest
from access_world import SECS
from grpc_world import serving as serving_grpc
from grpc_world import task
from service_here import Here, service_here, service_on
from service_process import plan, step

from replan import Replan, tool
from replan.config import Settings
from replan.config.sections import Server
from replan.ports import HasKeys
from replan.server.auth.keys import create_key, new_key
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def for_ever() -> str:
    await asyncio.Event().wait()
    return "never"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with service_here(tmp_path, tools=[for_ever]) as running:
        async with httpx2.AsyncClient(base_url=running.url, trust_env=False) as client:
            body = {**plan(step("s", "for_ever")), "task_id": "t"}
            assert (await client.post("/api/v1/tasks", json=body)).status_code == 202
        yield running


async def test_head_is_answered_as_get_without_its_body(here: Here) -> None:
    async with httpx2.AsyncClient(base_url=here.url, trust_env=False, timeout=SECS) as client:
        for path in (
            "/health",
            "/ready",
            "/metrics",
            "/api/v1/tasks",
            "/api/v1/tasks/nobody",
            "/api/v1/waiting",
        ):
            head, whole = await client.head(path), await client.get(path)
            assert (head.status_code, head.content) == (whole.status_code, b""), path
            assert head.headers["content-type"] == whole.headers["content-type"]
        stream = await client.head("/api/v1/tasks/t/events")
        assert (stream.status_code, stream.content) == (200, b"")
        assert stream.headers["content-type"].startswith("text/event-stream")
        refused = await client.head("/api/v1/tasks/t/cancel")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert (await client.delete("/health")).headers["allow"] == "GET, HEAD"
        counted = (await client.get("/metrics")).text
        assert 'replan_http_requests_total{method="HEAD",route="/tasks",status="200"} 1.0' in counted
        assert "replan_watchers 0.0" in counted, "nobody watches"
        assert (await client.post("/mcp", json={})).status_code >= 400
        assert 'method="POST",route="/mcp"' in (await client.get("/metrics")).text


@pytest.mark.parametrize("name", ["idempotency-key", "last-event-id"])
async def test_a_header_that_counts_once_and_is_sent_twice_is_refused(here: Here, name: str) -> None:
    async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as client:
        twice = [(name, "1"), (name, "2")]
        if name == "last-event-id":
            refused = await client.get("/tasks/t/events", headers=twice)
        else:
            refused = await client.post("/tasks", json=plan(step("s", "for_ever")), headers=twice)
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:replan:problem:header-sent-twice")
        assert name in refused.json()["detail"]
        several = [("accept", "text/plain"), ("accept", "application/json")]
        assert (await client.get("/tasks/t/events", headers=several)).status_code in (200, 406)


async def test_a_dry_run_takes_no_key_for_a_task_that_it_does_not_store(here: Here) -> None:
    async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as client:
        body = {**plan(step("s", "for_ever")), "dry_run": True}
        refused = await client.post("/tasks", json=body, headers={"idempotency-key": "k"})
        assert refused.status_code == 422
        assert "a dry run stores none" in refused.json()["detail"]
        assert (await client.post("/tasks", json=body)).status_code == 200


async def test_a_stream_to_a_client_of_http_1_0_comes_without_chunks(here: Here) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    writer.write(b"GET /api/v1/tasks/t/events HTTP/1.0\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(SECS):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        assert (await reader.readuntil(b"\n\n")).startswith(b"retry:")
        assert (await reader.readuntil(b"\n\n")).startswith(b"id: 1\nevent: task_submitted\n")
    writer.close()
    whole = await here.raw(b"GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n")
    assert whole.endswith(b'"}')


async def test_keys_that_are_tried_out_are_not_looked_at_any_more_and_good_ones_are(tmp_path: Path) -> None:
    settings = Settings(server=Server(auth="keys", port=0, failed_signins="5/hour"))
    replan = Replan(db=tmp_path / "tasks.db", settings=settings, evaluation="steps")
    async with service_on(replan) as here:
        parts = replan.service.parts
        assert isinstance(parts.store, HasKeys)
        good, late = [
            (
                await create_key(
                    parts.store.keys(), name=name, tenant="", scopes=("read",), now=parts.clock.now()
                )
            )[0]
            for name in ("good", "late")
        ]
        async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as client:

            async def told(key: str) -> httpx2.Response:
                return await client.get("/tasks", headers={"x-api-key": key})

            assert (await told(good)).status_code == 200
            assert [(await told(new_key().text)).status_code for _ in range(5)] == [401] * 5
            refused = await told(new_key().text)
            assert (refused.status_code, int(refused.headers["retry-after"]) > 60) == (429, True)
            assert (await told(late)).status_code == 429, "whether it is good is not looked at"
            assert (await told(good)).status_code == 200
            assert (await client.get("/health")).status_code == 200


async def test_an_answer_that_clients_of_grpc_would_refuse_says_what_to_do(tmp_path: Path) -> None:
    large = {"big": FakeTool(output="x" * 2_000_000)}
    steps = {"steps": [{"step_id": f"s{n}", "tool": "big", "parameters": {}} for n in range(3)]}
    async with serving_grpc(tmp_path, tools=large, settings=Settings()) as there:
        made = await there.call("SubmitTask", **_fields(task(steps)))
        options = [("grpc.max_receive_message_length", 64 * 2**20)]
        async with grpc.aio.insecure_channel(there.address, options) as channel:
            wide = there._replace(channel=channel)
            refused = await wide.refused(wide.call("GetResult", task_id=made.task_id, wait_secs=SECS))
            assert refused.reason == "ANSWER_TOO_LARGE"
            assert "grpc.max_receive_message_length" in refused.message
            takes = (("replan-takes-bytes", str(64 * 2**20)),)
            whole = await wide.call("GetResult", metadata=takes, task_id=made.task_id)
            assert len(whole.steps) == 3


def _fields(message: object) -> dict[str, object]:
    return {field.name: value for field, value in message.ListFields()}  # type: ignore[attr-defined]
