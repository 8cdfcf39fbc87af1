"""Requests in a row, a side that is closed, and what is logged of requests that are none."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from access_world import SECS
from service_here import service_here
from service_process import plan, step

from replan import tool
from replan.client import Client

pytestmark = pytest.mark.anyio
GET = b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n"


@tool(effect="reads")
async def look() -> str:
    return "seen"


@tool(effect="reads")
async def for_ever() -> str:
    await asyncio.Event().wait()
    return "never"


async def test_each_of_many_requests_in_a_row_is_answered_and_nobody_waits_for_all_of_them(
    tmp_path: Path,
) -> None:
    number = 3_000
    async with service_here(tmp_path) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(GET % b"/health" * number)
        first = await reader.readuntil(b"200 OK")
        answered = await here.raw(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") % b"/health")
        assert b"200 OK" in answered
        there = first + reader._buffer  # type: ignore[attr-defined] # what has come by now
        assert there.count(b"200 OK") < number, "it had its turn before the last of them"
        async with asyncio.timeout(SECS):
            while first.count(b"200 OK") < number:
                first += await reader.read(65_536)
        writer.close()


async def test_what_was_asked_before_its_side_was_closed_is_answered(tmp_path: Path) -> None:
    head = b"POST /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    body = json.dumps({**plan(step("s", "look")), "task_id": "t"}).encode()
    async with service_here(tmp_path, tools=[look]) as here:
        answer = await here.raw(head % len(body) + body, eof=True)
        assert b"HTTP/1.1 202" in answer
        assert b"connection: close" in answer
        assert b'"task_id":"t"' in answer
        assert await here.raw(head % len(body) + body[:-1], eof=True) == b"", "half a request is none"
        async with Client(here.url) as client:
            await client.wait("t")
        assert b'"is_success":true' in await here.raw(GET % b"/api/v1/tasks/t/result", eof=True)


async def test_a_wait_whose_side_was_closed_holds_no_place(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[for_ever]) as here:
        async with Client(here.url) as client:
            await client.submit("wait", task_id="t", plan=plan(step("s", "for_ever"))["options"]["plan"])
        assert await here.raw(GET % b"/api/v1/tasks/t/result?wait=300", eof=True) == b""


async def test_requests_that_are_none_are_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with service_here(tmp_path) as here:
        for _ in range(20):
            assert b"not-http" in await here.raw(b"what?\r\n\r\n")
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert lines == ["a request that is none of HTTP (from 127.0.0.1)"]
