"""Whoever sends too much, too slowly or nonsense over HTTP is told so and shut out, and holds up nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import SECS, Here, service_here
from service_process import events_of, plan, step

from replan import tool
from replan.server.auth.keys import new_key
from replan.server.shared import Pace

pytestmark = pytest.mark.anyio
QUICK = Pace(header_secs=0.2, body_secs=0.2, beat_secs=0.05, stuck_secs=0.4)
POST = b"POST /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@tool(effect="reads")
def text(size: int) -> str:
    return "x" * size


@tool(effect="reads")
async def for_ever() -> str:
    await asyncio.Event().wait()
    return "never"


def said(answer: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the problem of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head, answer[:300]
    told = json.loads(body)
    assert told["status"] == int(head.split()[1])
    return told["status"], told


async def healthy(here: Here) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{here.url}/health")).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api/v1/hea",
        b"GET /api/v1/health HTTP/1.1\r\nhost: localhost\r\nx-a: ",
        POST + b"content-length: 100\r\n\r\n{",
        POST + b"transfer-encoding: chunked\r\n\r\n5\r\n{",
        b"GET /api/v1/health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /",
    ],
    ids=["silent", "half an address", "half a head", "half a body", "half a chunk", "half a second head"],
)
async def test_a_request_that_does_not_arrive_ends_its_connection(tmp_path: Path, sent: bytes) -> None:
    async with service_here(tmp_path, pace=QUICK) as here:
        answer = await here.raw(sent)
        assert b"HTTP/1.1 408" in answer or b"200 OK" in answer
        await healthy(here)


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431, "headers-too-large"),
        (b"GET / HTTP/1.1\r\nx-a: " + b"a" * 20_000_000 + b"\r\n\r\n", 431, "headers-too-large"),
        (b"GET / HTTP/1.1\r\n" + b"x-a: b\r\n" * 50_000 + b"\r\n", 431, "headers-too-large"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not tls\r\n\r\n", 400, "not-http"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400, "not-http"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400, "not-http"),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", 421, "wrong-host"),
        (b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400, "not-http"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nHost: localhost\r\n\r\n", 400, "header-sent-twice"),
        (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "not-http"),
        (POST + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400, "not-http"),
        (POST + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", 415, "wrong-media-type"),
        (POST + b"content-length: 9999999\r\nconnection: close\r\n\r\n{", 413, "body-too-large"),
    ],
)  # fmt: skip
async def test_what_is_too_large_or_no_http_is_refused_with_a_problem(
    tmp_path: Path, sent: bytes, status: int, kind: str
) -> None:
    async with service_here(tmp_path, pace=QUICK) as here:
        try:
            answer = await here.raw(sent)
        except ConnectionError:
            answer = b""  # it had sent more than was read: the answer went with the connection
        if answer:
            head, document = said(answer)
            assert (head, document["type"]) == (status, f"urn:replan:problem:{kind}")
            assert f"x-request-id: {document['request_id']}".encode() in answer.lower()
        else:
            assert status == 431
        await healthy(here)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"task_description":"x","metadata":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, 400),
        (b'{"task_description":"x","metadata":{"a":' + b"9" * 1_000_000 + b"}}", 400),
        (b'{"task_description":"x","metadata":{"a":1e999}}', 400),
        (b'{"task_description":"x","metadata":{"a":NaN}}', 400),
        (b'{"task_description":"x","task_description":"y"}', 400),
        (b'{"task_description":"\xff"}', 400),
        (b'{"task_description":"\\ud800"}', 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"", 422),
        (b"null", 422),
        (b"[]", 422),
        (b"x" * 3_000_000, 413),
        (b'{"task_description":"' + b"x" * 300_000 + b'"}', 422),
        (b'{"task_description":"x","options":{"max_rounds":"3"}}', 422),
        (b'{"task_description":"x","options":{"output_schema":{"$ref":"#/a"}}}', 422),
        (b'{"task_description":"x","task_id":"' + b"a" * 200 + b'"}', 422),
        (b'{"task_description":"x","options":{"plan":{"steps":"no"}}, "dry_run":true}', 422),
    ],
)
async def test_a_body_that_is_a_bomb_or_no_request_is_refused_at_once(
    tmp_path: Path, body: bytes, status: int
) -> None:
    async with (
        service_here(tmp_path) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as client,
    ):
        began = time.process_time()
        answer = await client.post(
            "/api/v1/tasks", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == status, answer.text[:300]
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.content) < 20_000
        assert time.process_time() - began < 2  # of CPU: a bomb would take minutes


async def test_a_body_in_another_form_is_told_which_one_is_taken(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as client,
    ):
        for media in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
        ):
            headers = {"content-type": media} if media else {}
            answer = await client.post("/api/v1/tasks", content=b'{"task_description":"x"}', headers=headers)
            assert (answer.status_code, answer.json()["type"][-16:]) == (415, "wrong-media-type")


async def test_beyond_the_most_connections_idle_ones_give_way_and_others_are_told(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[for_ever], max_connections=8) as here:
        idle = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(20)]
        await healthy(here)  # one of the idle ones was closed for it
        async with httpx2.AsyncClient(base_url=here.url, trust_env=False) as client:
            body = {**plan(step("s1", "for_ever")), "task_id": "long"}
            assert (await client.post("/api/v1/tasks", json=body)).status_code == 202
        busy = []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(b"GET /api/v1/tasks/long/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n")
            busy.append((reader, writer))
        status, told = said(await here.raw(b"GET /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\n\r\n"))
        assert (status, told["retry_after"]) == (503, 1.0)
        for _, writer in (*idle, *busy):
            writer.close()
        async with asyncio.timeout(SECS):
            while True:
                try:
                    await healthy(here)
                    break
                except (AssertionError, httpx2.HTTPError):
                    await asyncio.sleep(0.01)


HEAD = b"GET /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize("half", [HEAD, POST + b"content-length: 1000000\r\n\r\n{"], ids=["a head", "a body"])
async def test_half_of_a_request_on_every_connection_shuts_nobody_out(tmp_path: Path, half: bytes) -> None:
    async with service_here(tmp_path, max_connections=8) as here:
        whole = HEAD + b"connection: close\r\n\r\n"
        with contextlib.ExitStack() as held:
            for _ in range(3):  # again and again, as fast as they are closed
                for _ in range(100):
                    held.enter_context(await _asked(here.port, half))
                answers = [(await here.raw(whole))[:12] for _ in range(5)]
                assert answers == [b"HTTP/1.1 200"] * 5


async def test_a_reader_that_takes_nothing_is_cut_off_and_slows_nobody(tmp_path: Path) -> None:
    steps = [step(f"s{number}", "text", size=200_000) for number in range(20)]
    async with (
        service_here(tmp_path, tools=[text], pace=QUICK) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False, timeout=SECS) as client,
    ):
        body = {**plan(*steps), "task_id": "much"}
        assert (await client.post("/api/v1/tasks", json=body)).status_code == 202
        stuck = [
            await _asked(here.port, b"GET /api/v1/tasks/much/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            for _ in range(5)
        ]
        assert (await client.get("/api/v1/tasks/much/result", params={"wait": SECS})).status_code == 200
        async with client.stream("GET", "/api/v1/tasks/much/events") as stream:
            lines = [line async for line in stream.aiter_lines()]
        ids = [one["id"] for one in events_of(iter(lines)) if one["id"]]
        assert ids == list(range(1, len(ids) + 1))
        async with asyncio.timeout(SECS):
            while "replan_watchers 0.0" not in (await client.get("/metrics")).text:  # noqa: ASYNC110 -- of the service
                await asyncio.sleep(0.02)
            ends = [await _rest(one) for one in stuck]
        assert not any(b"task_completed" in end for end in ends)


async def _asked(port: int, request: bytes) -> socket.socket:
    """A connection on which something is asked for, and nothing is read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", port))
    await loop.sock_sendall(made, request)
    return made


async def _rest(one: socket.socket) -> bytes:
    """What there is to be read after all."""
    loop, found = asyncio.get_running_loop(), b""
    with one, contextlib.suppress(ConnectionError):
        while piece := await loop.sock_recv(one, 65_536):
            found += piece
    return found


async def test_a_stream_on_which_nothing_happens_gives_signs_of_life(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[for_ever], pace=QUICK) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False, timeout=SECS) as client,
    ):
        await client.post("/api/v1/tasks", json={**plan(step("s1", "for_ever")), "task_id": "long"})
        beats = 0
        async with client.stream("GET", "/api/v1/tasks/long/events") as stream:
            async for line in stream.aiter_lines():
                beats += line == ":"
                if beats == 3:
                    break


async def test_calls_have_ids_and_large_answers_are_compressed_and_streams_are_not(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[text]) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as client,
    ):
        body = {**plan(step("s1", "text", size=50_000)), "task_id": "t"}
        given = await client.post("/tasks", json=body, headers={"x-request-id": "mine-1"})
        assert given.headers["x-request-id"] == "mine-1"
        missing = await client.get("/tasks/nobody", headers={"x-request-id": "bad id"})
        assert missing.json()["request_id"] == missing.headers["x-request-id"] != "bad id"
        key = new_key().text
        hidden = await client.get("/tasks/t", headers={"x-request-id": f"a.{key}"})
        assert key not in hidden.headers["x-request-id"]
        result = await client.get("/tasks/t/result", params={"wait": SECS})
        assert result.headers["content-encoding"] == "gzip"
        async with client.stream("GET", "/tasks/t/events") as stream:
            assert "content-encoding" not in stream.headers
            assert "content-length" not in stream.headers


async def test_pages_of_named_origins_may_call_and_others_may_not(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, cors_origins=("https://app.example",)) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False) as client,
    ):
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
        for origin, allowed in (("https://app.example", True), ("https://evil.example", False)):
            before = await client.options("/tasks", headers={"origin": origin, **asked})
            then = await client.get("/tasks", headers={"origin": origin})
            for answer in (before, then):
                assert (answer.headers.get("access-control-allow-origin") == origin) is allowed


async def test_nothing_that_has_not_come_whole_and_no_reader_holds_up_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with service_here(tmp_path, tools=[text]) as here:
        async with httpx2.AsyncClient(base_url=here.url, trust_env=False, timeout=SECS) as client:
            steps = [step(f"s{number}", "text", size=200_000) for number in range(10)]
            await client.post("/api/v1/tasks", json={**plan(*steps), "task_id": "much"})
            assert (await client.get("/api/v1/tasks/much/result", params={"wait": SECS})).status_code == 200
        half = [await _asked(here.port, POST + b"content-length: 100\r\n\r\n{") for _ in range(3)]
        asked = b"GET /api/v1/tasks/much/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
        stuck = [await _asked(here.port, asked) for _ in range(3)]
        await healthy(here)
        here.stop.set()
        async with asyncio.timeout(SECS):
            ends = [await _rest(one) for one in (*half, *stuck)]
    assert not any(b"task_completed" in end for end in ends)
    assert not [record for record in caplog.records if record.exc_info]
