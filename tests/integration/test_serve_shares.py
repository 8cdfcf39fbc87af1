"""However much some callers hold open: how the service stands is always told, and others find a place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from authorization_world import ACME, GLOBEX
from grpc_world import grpc_class
from service_here import SECS, Here, service_here, service_on
from service_process import plan, step

from replan import Replan, tool
from replan.config import Settings
from replan.config.sections import Server
from replan.ports import HasKeys
from replan.server.auth.keys import create_key
from replan.server.grpc.messages import SERVICE
from replan.server.shared import Pace

pytestmark = pytest.mark.anyio
BODY = {**plan(step("s", "for_ever")), "task_id": "t"}
MOST = 6
"""Connections, and streams over gRPC: of them a key may hold 3, and a tenant 4."""
BEAT = Pace(beat_secs=0.05)


@tool(effect="reads")
async def for_ever() -> str:
    await asyncio.Event().wait()
    return "never"


@contextlib.asynccontextmanager
async def shared_service(folder: Path) -> AsyncIterator[tuple[Here, dict[str, str]]]:
    """A service with keys: two of acme, one of globex."""
    settings = Settings(server=Server(auth="keys", port=0, max_connections=MOST))
    replan = Replan(db=folder / "tasks.db", tools=[for_ever], settings=settings, evaluation="steps")
    async with service_on(replan, BEAT) as here:
        parts = replan.service.parts
        assert isinstance(parts.store, HasKeys)
        now, keys = parts.clock.now(), {}
        for name, tenant in (("one", ACME), ("two", ACME), ("other", GLOBEX)):
            keys[name], _ = await create_key(
                parts.store.keys(), name=name, tenant=tenant, scopes=("read", "run"), now=now
            )
        for name in ("one", "other"):
            async with asking(here, keys[name]) as http:
                assert (await http.post("/tasks", json=BODY)).status_code == 202
        yield here, keys


def asking(here: Here, key: str = "") -> httpx2.AsyncClient:
    """Each call comes over a connection of its own."""
    headers = {"connection": "close", **({"x-api-key": key} if key else {})}
    return httpx2.AsyncClient(base_url=f"{here.url}/api/v1", timeout=SECS, trust_env=False, headers=headers)


@contextlib.asynccontextmanager
async def streams(here: Here, key: str, count: int) -> AsyncIterator[list[int]]:
    """So many streams at once; the status of each, once it is open or refused."""
    async with asking(here, key) as http, contextlib.AsyncExitStack() as open_:
        found = [await open_.enter_async_context(http.stream("GET", "/tasks/t/events")) for _ in range(count)]
        yield [one.status_code for one in found]


async def test_what_a_key_and_a_tenant_hold_open_is_bounded_over_all_ways_in(tmp_path: Path) -> None:
    async with shared_service(tmp_path) as (here, keys):
        async with streams(here, keys["one"], 3) as told:
            assert told == [200] * 3
            async with asking(here, keys["one"]) as http:
                for path in ("/tasks/t/events", "/tasks/t/result?wait=5"):
                    refused = await http.get(path)
                    assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
                    assert "max_open_per_key" in refused.json()["detail"]
                assert (await http.get("/tasks/t")).status_code == 200, "what is short is not bounded"
                over_mcp = await http.post(
                    f"{here.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}
                )
                assert over_mcp.status_code == 429
            async with streams(here, keys["two"], 2) as of_its_tenant, asking(here, keys["two"]) as http:
                assert of_its_tenant == [200, 429]
                assert "max_open_per_tenant" in (await http.get("/tasks/t/events")).json()["detail"]
                async with streams(here, keys["other"], 1) as others:
                    assert others == [200]
        async with asyncio.timeout(SECS), asking(here, keys["one"]) as http:  # the places come back
            while (await http.get("/tasks/t/result", params={"wait": 0.01})).status_code != 409:
                pass


HALF = "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-api-key: {}\r\ncontent-length: 1000\r\n\r\n{{"


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/mcp"])
async def test_calls_that_have_not_come_whole_count_for_their_key(tmp_path: Path, path: str) -> None:
    async with shared_service(tmp_path) as (here, keys), contextlib.AsyncExitStack() as open_:
        half = HALF.format(path, keys["one"]).encode()
        told = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            open_.callback(writer.close)
            writer.write(half)
            told.append(asyncio.create_task(reader.read()))
        done, _ = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED, timeout=SECS)
        (answer,) = [one.result() for one in done]
        assert b" 429 " in answer
        assert b"calls begun that have not come whole" in answer
        async with asking(here, keys["other"]) as http:
            assert (await http.post("/tasks", json=BODY)).status_code == 200
    await asyncio.gather(*told)


async def test_callers_that_hang_up_in_a_body_are_no_lines_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("a2a.types")
    async with service_here(tmp_path, a2a=True) as here:
        for path in ("/api/v1/tasks", "/mcp", "/a2a"):
            assert await here.raw(HALF.format(path, "").encode(), eof=True) == b""
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_over_grpc_the_same_places_are_held(tmp_path: Path) -> None:
    async with shared_service(tmp_path) as (here, keys), streams(here, keys["one"], 1):
        address = f"127.0.0.1:{here.grpc_port}"
        async with grpc.aio.insecure_channel(address) as channel:

            def calling(name: str, sends: str, **fields: Any) -> Any:
                method = channel.unary_stream(f"/{SERVICE}/{name}", grpc_class_of(sends).SerializeToString)
                return method(grpc_class_of(sends)(**fields), metadata=(("x-api-key", keys["one"]),))

            held = [calling("WatchTask", "WatchTaskRequest", task_id="t") for _ in range(2)]
            for one in held:
                await anext(aiter(one))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(aiter(calling("WatchTask", "WatchTaskRequest", task_id="t")))
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "max_open_per_key" in str(refused.value.details())
            for one in held:
                one.cancel()


def grpc_class_of(name: str) -> Any:
    return grpc_class(type("Named", (), {"name": name}))


@pytest.mark.parametrize("held", ["streams", "half heads"])
async def test_how_it_stands_is_told_whatever_others_hold(tmp_path: Path, held: str) -> None:
    async with service_here(tmp_path, tools=[for_ever], max_connections=3, pace=BEAT) as here:
        async with asking(here) as http:
            assert (await http.post("/tasks", json=BODY)).status_code == 202
        async with contextlib.AsyncExitStack() as open_:
            if held == "streams":
                assert await open_.enter_async_context(streams(here, "", 3)) == [200] * 3
            else:
                for _ in range(200):
                    _, writer = await asyncio.open_connection("127.0.0.1", here.port)
                    open_.callback(writer.close)
                    writer.write(b"GET /api/v1/tasks HTTP/1.1\r\nhost: local")
                    await writer.drain()
            async with asking(here) as http:
                for path in ("health", "ready", "metrics"):
                    for root in (here.url, f"{here.url}/api/v1"):
                        assert (await http.get(f"{root}/{path}")).status_code == 200
                if held == "streams":
                    refused = await http.get("/tasks")
                    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                    assert refused.json()["type"] == "urn:replan:problem:too-many-connections"
        async with asyncio.timeout(SECS), asking(here) as http:
            while (await http.get("/tasks")).status_code != 200:
                pass
