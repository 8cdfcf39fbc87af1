"""What is kept apart, read over HTTP: by slow readers, by such as take nothing, and where it is there no more."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from access_world import PLAIN
from service_here import SECS, Here, service_here

from replan.server.shared import Pace
from replan.testing import FakeSource, FakeTool

pytestmark = pytest.mark.anyio
SIZE = 8_000_000
LIMIT_SECS = 0.3


class Kept(NamedTuple):
    here: Here
    path: str


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    tools = [FakeSource({"look": FakeTool(output="x" * SIZE)})]
    body = {"task_description": "x", "task_id": "large", "options": {"plan": PLAIN}}
    async with (
        service_here(
            tmp_path, tools=tools, pace=Pace(stuck_secs=LIMIT_SECS), request_timeout_secs=LIMIT_SECS
        ) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as http,
    ):
        assert (await http.post("/tasks", json=body)).status_code == 202
        assert (await http.get("/tasks/large/result", params={"wait": SECS})).status_code == 200
        piece = (await http.get("/tasks/large/steps/a/output")).json()
        yield Kept(here, f"/api/v1/tasks/large/artifacts/{piece['artifact_id']}")


async def asked(kept: Kept) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with little room on which it is asked for."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", kept.here.port))
    reader, writer = await asyncio.open_connection(sock=made, limit=65_536)
    writer.write(f"GET {kept.path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    return reader, writer


async def test_a_download_that_goes_on_is_not_cut_off_by_the_limit_of_calls(kept: Kept) -> None:
    now = asyncio.get_running_loop().time
    reader, writer = await asked(kept)
    head = await reader.readuntil(b"\r\n\r\n")
    assert f"content-length: {SIZE + 2}".encode() in head
    began, size = now(), 0
    async with asyncio.timeout(SECS):
        while piece := await reader.read(65_536):
            size += len(piece)
            await asyncio.sleep(4 * LIMIT_SECS * len(piece) / SIZE)
    writer.close()
    assert now() - began > 2 * LIMIT_SECS
    assert size == SIZE + 2


async def test_a_reader_of_a_download_that_takes_nothing_is_cut_off(kept: Kept) -> None:
    reader, writer = await asked(kept)
    await asyncio.sleep(4 * LIMIT_SECS)
    size = 0
    try:
        async with asyncio.timeout(SECS):
            while piece := await reader.read(65_536):
                size += len(piece)
    except ConnectionError:
        pass
    writer.close()
    assert size < SIZE


async def test_what_is_there_no_more_is_told_as_a_problem(kept: Kept, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "tasks.db") as db:
        db.execute("DELETE FROM artifact_use")
    db.close()
    async with httpx2.AsyncClient(base_url=kept.here.url, trust_env=False) as http:
        told = await http.get(kept.path)
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
