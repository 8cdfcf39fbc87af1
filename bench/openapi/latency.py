"""What a call through the source adds to the same request made with the bare client.

python -m bench.openapi.latency [CALLS]
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bench.openapi.judge import serving
from replan.ports import ToolCall
from replan.tools.openapi import OpenApiSource

ANSWER = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "bench", "version": "1"},
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "full", "in": "query", "schema": {"type": "boolean"}},
                ],
                "responses": {"200": {"content": {"application/json": {"schema": ANSWER}}}},
            }
        }
    },
}


async def _pet(request: Request) -> Response:
    return JSONResponse({"id": int(request.path_params["id"]), "name": "Rex"})


def _serve() -> None:
    with serving(Starlette(routes=[Route("/pets/{id:int}", _pet)])) as url:
        print(url, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """A server in a process of its own, until the end of the block."""
    command = [sys.executable, "-m", "bench.openapi.latency", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


async def _timed(call: Callable[[int], Awaitable[Any]], calls: int) -> tuple[float, float]:
    """Median seconds of one call after another, and calls a second with ten at a time."""
    took = []
    for number in range(calls):
        begun = time.perf_counter()
        await call(number)
        took.append(time.perf_counter() - begun)

    async def one_of_ten(first: int) -> None:
        for number in range(first, calls, 10):
            await call(number)

    begun = time.perf_counter()
    await asyncio.gather(*(one_of_ten(first) for first in range(10)))
    return statistics.median(took), calls / (time.perf_counter() - begun)


async def main(calls: int) -> None:
    with _server() as url:
        source = OpenApiSource(DOCUMENT, server=url)
        async with httpx2.AsyncClient() as client:

            async def bare(number: int) -> Any:
                return (await client.get(f"{url}/pets/{number}", params={"full": "true"})).json()

            async def through(number: int) -> Any:
                return await source.call(ToolCall("getPet", {"id": number, "full": True}, "key", "task"))

            assert await bare(7) == await through(7)
            for name, call in (("bare httpx2", bare), ("OpenApiSource", through), ("bare httpx2", bare)):
                median, rate = await _timed(call, calls)
                print(
                    f"{name:14} {median * 1000:.2f} ms a call, {rate:.0f} calls a second with ten at a time"
                )
        await source.aclose()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        _serve()
    else:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
