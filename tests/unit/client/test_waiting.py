"""How long a client waits for a task that is about to go on, by a service that says what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from replan.client import Client
from replan.core.events import LlmToken, Record, RoundStarted, TaskCompleted, TaskSubmitted

pytestmark = pytest.mark.anyio

ASKED = {"kind": "approval", "id": "appr_1", "text": "May it?"}
NOT_DONE = 409, {"type": "urn:replan:problem:task-not-done", "detail": "not yet", "task_status": "waiting"}
DONE = 200, {"task_id": "t", "status": "succeeded", "is_success": True, "final_output": "done"}


def _view(*waiting_for: dict[str, str]) -> tuple[int, Any]:
    return 200, {
        "task_id": "t", "status": "waiting", "description": "x", "created": 0, "updated": 0, "last_seq": 3,
        "current_round": 1, "current_step": None, "total_steps": 1, "done_steps": 0, "progress": 0, "plan_version": 1,
        "usage": {}, "waiting_for": waiting_for,
    }  # fmt: skip


@contextlib.asynccontextmanager
async def saying(**answers: list[tuple[int, Any]]) -> AsyncIterator[tuple[Client, list[str]]]:
    """A service that answers each call with what is next for it; the last answer stays."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                method, path, _ = head.split(" ", 2)
                name = path.partition("?")[0].rpartition("/")[2]
                if length := next(
                    (line for line in head.split("\r\n") if "content-length:" in line.lower()), ""
                ):
                    await reader.readexactly(int(length.partition(":")[2]))
                asked.append(f"{method} {name}")
                known = answers["stream" if "text/event-stream" in head else name]
                status, body = known.pop(0) if len(known) > 1 else known[0]
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(data), data))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with (
        server,
        Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", patience_secs=5) as client,
    ):
        yield client, asked


def _event(seq: int, event: Any) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (seq, json.dumps(Record(seq, "t", 0.0, 1, event).wire()).encode())


async def test_a_task_that_has_got_its_answer_is_waited_for() -> None:
    goes_on = 200, _event(4, RoundStarted(round=1))
    async with saying(result=[NOT_DONE, DONE], t=[_view()], stream=[goes_on]) as (client, asked):
        assert (await client.wait("t")).output == "done"
        assert asked == ["GET result", "GET t", "GET events", "GET result"]
        assert (await client.summary("t")).held


async def test_a_task_that_waits_for_a_person_is_given_as_it_is() -> None:
    log = {"items": [Record(1, "t", 0.0, 0, TaskSubmitted(description="x")).wire()], "next_after": None}
    async with saying(result=[NOT_DONE], t=[_view(ASKED)], events=[(200, log)]) as (client, asked):
        assert not (await client.wait("t")).is_success
        assert asked == ["GET result", "GET t", "GET events"]
        assert not (await client.summary("t")).held


async def test_one_that_is_resumed_is_waited_for_before_it_is_looked_at() -> None:
    goes_on = 200, _event(4, RoundStarted(round=1))
    async with saying(resume=[_view(ASKED)], result=[DONE], stream=[goes_on]) as (client, asked):
        assert (await client.resume("t")).output == "done"
        assert asked == ["POST resume", "GET events", "GET result"]


async def test_an_event_that_is_left_out_is_asked_for_again_and_one_that_comes_twice_left_out() -> None:
    first, second = _event(1, TaskSubmitted(description="x")), _event(2, RoundStarted(round=1))
    third = _event(3, TaskCompleted(final_output="done"))
    streams = [(200, first + third), (200, first + second), (200, second + second + third)]
    async with saying(stream=streams) as (client, _):
        assert [record.seq async for record in client.watch("t")] == [1, 2, 3]


async def test_what_is_not_stored_comes_only_where_it_is_asked_for() -> None:
    news = (
        b"data: %b\n\n"
        % json.dumps(
            Record(0, "t", 0.0, 1, LlmToken(call_id="c", role="planning", text="so")).wire()
        ).encode()
    )
    stream = (
        200,
        _event(1, TaskSubmitted(description="x")) + news + _event(2, TaskCompleted(final_output="done")),
    )
    async with saying(stream=[stream]) as (client, _):
        assert [record.seq async for record in client.watch("t")] == [1, 2]
        assert [record.seq async for record in client.watch("t", ephemeral=True)] == [1, 0, 2]
