"""Large answers of the service: they wait for their reader in a file, and not in its memory."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import select
import socket
import tracemalloc
from pathlib import Path

import httpx2
import pytest
from service_here import SECS, Here, service_here
from service_process import plan, step

from replan import tool
from replan.server.shared import Pace

pytestmark = pytest.mark.anyio
SIZE = 6_000_000
STUCK = 20


@tool(effect="reads")
def text(size: int) -> str:
    return "x" * size


async def with_a_large_result(here: Here) -> str:
    async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as http:
        task_id: str = (await http.post("/tasks", json=plan(step("s1", "text", size=SIZE)))).json()["task_id"]
        assert (await http.get(f"/tasks/{task_id}/result", params={"wait": 20})).status_code == 200
    return task_id


def asks(here: Here, task_id: str, more: str = "", *, narrow: bool = True) -> socket.socket:
    """Whoever asks for the result, and takes nothing of it. `narrow`: not even its kernel does."""
    stuck = socket.create_connection(("127.0.0.1", here.port))
    if narrow:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.sendall(
        f"GET /api/v1/tasks/{task_id}/result HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n".encode()
    )
    return stuck


def taken(stuck: socket.socket) -> tuple[bytes, bytes]:
    """The head and the body that come."""
    stuck.settimeout(SECS)
    head, _, body = b"".join(iter(lambda: stuck.recv(1 << 20), b"")).partition(b"\r\n\r\n")
    return head, body


async def test_readers_that_take_nothing_cost_no_memory_and_get_all_of_it_later(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[text]) as here, contextlib.AsyncExitStack() as open_:
        task_id = await with_a_large_result(here)
        tracemalloc.start()
        open_.callback(tracemalloc.stop)
        readers = [
            open_.enter_context(
                contextlib.closing(asks(here, task_id, "accept-encoding: gzip\r\n" * (n % 2), narrow=n > 1))
            )
            for n in range(STUCK)
        ]
        for reader in readers:
            reader.settimeout(SECS)
            await asyncio.to_thread(reader.recv, 1, socket.MSG_PEEK)  # its answer has begun
        held, _ = tracemalloc.get_traced_memory()
        assert held < 2 * SIZE
        for n, reader in enumerate(readers[:2]):
            head, body = await asyncio.to_thread(taken, reader)
            assert b"vary: Accept-Encoding" in head
            assert int(re.findall(rb"content-length: (\d+)", head)[0]) == len(body)
            whole = gzip.decompress(body) if n else body
            assert whole.count(b"x") >= SIZE


async def test_one_that_takes_nothing_for_too_long_is_cut_off(tmp_path: Path) -> None:
    pace = Pace(stuck_secs=0.2)
    async with service_here(tmp_path, tools=[text], pace=pace) as here:
        with contextlib.closing(asks(here, await with_a_large_result(here))) as stuck:
            stuck.settimeout(SECS)
            await asyncio.to_thread(stuck.recv, 1, socket.MSG_PEEK)
            hung_up = select.poll()
            hung_up.register(stuck, select.POLLHUP | select.POLLERR)
            assert await asyncio.to_thread(hung_up.poll, 1000 * SECS)


@tool(effect="reads")
def rows(number: int) -> list[dict[str, object]]:
    return [
        {"id": at, "name": f"n{at}", "part": at / 7, "none": None, "in": [at, {"ö": '"'}]}
        for at in range(number)
    ]


async def test_a_large_result_is_written_in_pieces_as_it_would_be_at_once(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[rows, text]) as here:
        async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as http:
            body = plan(
                step("s1", "rows", number=20_000),
                step("s2", "text", size=700_000),
                step("s3", "rows", number=1),
            )
            task_id = (await http.post("/tasks", json=body)).json()["task_id"]
            told = await http.get(f"/tasks/{task_id}/result", params={"wait": 20})
        found = await here.replan.result(task_id)
        assert len(told.content) > 2_000_000
        assert told.content == found.__pydantic_serializer__.to_json(found)
