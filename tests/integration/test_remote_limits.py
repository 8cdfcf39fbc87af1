"""What a tool server does with requests that do not arrive, that are too large, and with keys used for another call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from replan.tools import FunctionSource, tool
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


HALF = {
    "nothing": b"",
    "half a head": b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-",
    "half a body": b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{",
    "half a chunk": b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    "half of a second request": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", HALF.values(), ids=HALF)
async def test_a_request_that_does_not_arrive_is_given_up(sent: bytes) -> None:
    async with running(
        [FunctionSource([add])], keys=Keys(), port=0, header_secs=0.2, body_secs=0.2
    ) as serving:
        port = int(serving.urls[0].rpartition(":")[2])
        ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        async with asyncio.timeout(20):
            for _, writer in ends:
                writer.write(sent)
            if sent.startswith(b"GET"):
                for reader, writer in ends:
                    await reader.readuntil(b"}")  # the whole request is answered
                    writer.write(b"GET /hea")
            for reader, writer in ends:
                assert b"408 Request Timeout" in await reader.read()
                writer.close()
        async with httpx2.AsyncClient(base_url=serving.urls[0], trust_env=False) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_a_request_that_trickles_in_time_is_answered() -> None:
    body = json.dumps({"tool": "add", "parameters": {"a": 1}}).encode()
    head = b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with running([FunctionSource([add])], keys=Keys(), port=0) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(serving.urls[0].rpartition(":")[2]))
        for _ in range(2):  # the connection stays
            for byte in head + body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                assert b"200" in await reader.readline()
                await reader.readuntil(b'{"output":1}')
        writer.close()


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        pytest.param("/v1/execute", "right", b"413", id="too large"),
        pytest.param("/v1/execute", "wrong", b"401", id="no right"),
        pytest.param("/v1/nowhere", "right", b"404", id="nothing there"),
        pytest.param("/v1/tools", "right", b"405", id="another method"),
    ],
)
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
async def test_a_client_that_sends_all_before_it_reads_gets_its_answer(
    path: str, token: str, status: bytes, announced: bool
) -> None:
    size = 12_000_000  # more than the buffers on the way hold
    async with running(
        [FunctionSource([add])], keys=Keys(), port=0, token="right", max_request_bytes=2000
    ) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(serving.urls[0].rpartition(":")[2]))
        length = b"Content-Length: %d" % size if announced else b"Transfer-Encoding: chunked"
        writer.write(
            b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n"
            % (path.encode(), token.encode(), length)
        )
        part = b"x" * 100_000
        async with asyncio.timeout(30):
            for _ in range(size // len(part)):
                writer.write(part if announced else b"%x\r\n%s\r\n" % (len(part), part))
                await writer.drain()
            if not announced:
                writer.write(b"0\r\n\r\n")
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["happened"] == "no"


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
async def test_a_key_of_another_call_is_refused_whether_that_runs_or_has_ended(accept: str) -> None:
    going = asyncio.Event()

    @tool
    async def wait(a: int) -> int:
        """Wait."""
        await going.wait()
        return a

    async with (
        running([FunctionSource([add, wait])], keys=Keys(), port=0) as serving,
        httpx2.AsyncClient(base_url=serving.urls[0], trust_env=False, timeout=20) as client,
    ):

        async def made(name: str, key: str, **parameters: Any) -> tuple[int, Any]:
            said = {"tool": name, "parameters": parameters, "key": key}
            answer = await client.post("/v1/execute", json=said, headers={"Accept": accept})
            return answer.status_code, json.loads(answer.text.strip().splitlines()[-1])

        assert await made("add", "k1", a=1) == (200, {"output": 1})
        running_call = asyncio.create_task(made("wait", "k2", a=5))
        for name, key, parameters in (
            ("add", "k1", {"a": 2}),
            ("add", "k1", {"a": 1, "b": 7}),
            ("wait", "k1", {"a": 1}),
        ):
            status, said = await made(name, key, **parameters)
            assert (status, said["error"]["kind"], said["error"]["happened"]) == (422, "parameter", "no")
        going.set()
        assert await running_call == (200, {"output": 5})
        assert (await made("wait", "k2", a=6))[0] == 422
        assert await made("add", "k1", a=1) == (200, {"output": 1})
