"""What a call through a tool service costs, beside the function itself and a bare echo over the same library.

    python -m bench.tools.remote            median added latency and calls a second, HTTP and gRPC
    python -m bench.tools.remote --calls 500 --rounds 3

The servers are processes of their own on loopback. The bare echoes do nothing but send the same JSON there and back:
httpx2 against an ASGI application on uvicorn, and grpc.aio against a unary method. A call with an effect (`once`) is
on disk twice on the server (begun, answered) before its answer goes out. Rounds are interleaved in random order.
"""

import argparse
import asyncio
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from replan import tool
from replan.ports import ToolCall
from replan.tools import FunctionSource
from replan.tools.remote import RemoteSource

SIDE_BY_SIDE = 32
Call = Callable[[int], Awaitable[Any]]


@tool(effect="reads")
async def read(n: int) -> dict[str, int]:
    """Give the number back."""
    return {"n": n}


@tool
async def change(n: int) -> dict[str, int]:
    """Give the number back, as a call with an effect."""
    return {"n": n}


async def _bare_server(kind: str) -> None:
    """A bare echo until stdin ends; tells its port first."""
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    if kind == "grpc":
        import grpc
        import grpc.aio

        async def answer(request: bytes, context: Any) -> bytes:
            return json.dumps(json.loads(request)).encode()

        server = grpc.aio.server()
        handlers = {"Echo": grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
        print(server.add_insecure_port("127.0.0.1:0"), flush=True)
        await server.start()
        await ended
        await server.stop(0)
        return
    import socket

    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = json.dumps(json.loads((await receive())["body"])).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    # asyncio turns Nagle's algorithm off for what is named as TCP only.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    print(bound.getsockname()[1], flush=True)
    web = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
    running = asyncio.create_task(web.serve([bound]))
    await ended
    web.should_exit = True
    await running


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[str]:
    """A server process, and the line that it tells first."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode()
    finally:
        process.kill()
        await process.stdout.read()
        await process.wait()


async def _rows(stack: AsyncExitStack, folder: Path) -> dict[str, Call]:
    bare = FunctionSource([read, change])

    def through(source: Any, name: str) -> Call:
        run = str(time.time_ns())
        return lambda n: source.call(ToolCall(name, {"n": n}, f"{run}-{n}-{random.random()}"))

    rows: dict[str, Call] = {"function, called by the source": through(bare, "read")}
    import grpc.aio
    import httpx2

    port = int(await stack.enter_async_context(_process("-m", "bench.tools.remote", "--bare", "http")))
    client = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
    rows["HTTP: bare echo (httpx2, uvicorn)"] = lambda n: client.post(
        f"http://127.0.0.1:{port}/", json={"n": n}
    )
    target = await stack.enter_async_context(_process("-m", "bench.tools.remote", "--bare", "grpc"))
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{int(target)}"))
    echo = channel.unary_unary("/bench.Echo/Echo")
    rows["gRPC: bare echo (grpc.aio)"] = lambda n: echo(json.dumps({"n": n}).encode())
    for protocol, ports in (("HTTP", ["--port", "0"]), ("gRPC", ["--port", "-1", "--grpc-port", "0"])):
        command = ["-m", "replan.cli", "tools", "serve", "bench.tools.remote", "--json", *ports]
        told = await stack.enter_async_context(_process(*command, "--keys", str(folder / f"{protocol}.db")))
        source = RemoteSource(json.loads(told)["urls"])
        stack.push_async_callback(source.aclose)
        await source.tools()
        rows[f"{protocol}: tool service, reads"] = through(source, "read")
        rows[f"{protocol}: tool service, once"] = through(source, "change")
    return rows


async def _one(call: Call, calls: int) -> tuple[float, float]:
    """Median seconds of a call alone, and calls a second with many at once."""
    took = []
    for n in range(calls):
        begun = time.perf_counter()
        await call(n)
        took.append(time.perf_counter() - begun)
    numbers = iter(range(calls))

    async def some() -> None:
        for n in numbers:
            await call(n)

    begun = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(SIDE_BY_SIDE)))
    return statistics.median(took), calls / (time.perf_counter() - begun)


async def _measure(calls: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            rows = await _rows(stack, Path(folder))
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
            for call in rows.values():
                await _one(call, 20)
            for _ in range(rounds):
                for name in random.sample(list(rows), len(rows)):
                    found[name].append(await _one(rows[name], calls))
    print(
        f"Python {platform.python_version()}, {calls} calls, median of {rounds} rounds, {SIDE_BY_SIDE} at once"
    )
    base = statistics.median(latency for latency, _ in found["function, called by the source"])
    for name, values in found.items():
        latency = statistics.median(value for value, _ in values)
        rate = statistics.median(value for _, value in values)
        print(f"{name:<36} {(latency - base) * 1000:8.3f} ms added {rate:10,.0f} calls/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bare", choices=["http", "grpc"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    asyncio.run(_bare_server(given.bare) if given.bare else _measure(given.calls, given.rounds))


if __name__ == "__main__":
    main()
