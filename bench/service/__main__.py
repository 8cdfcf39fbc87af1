"""The service under load, beside bare servers in the same run.

python -m bench.service --setup          install the servers of peers, in an environment of their own (once; some two minutes)
python -m bench.service                  everything (some eight minutes; without --setup five, and no peers)
python -m bench.service --only submit    tasks handed in by 1, 50 and 500 clients, and 200 a second
python -m bench.service --only status    how tasks stand, whatever the length of their logs
python -m bench.service --only first     the first event of a task on a new stream
python -m bench.service --only watchers  1,000 readers of one task
python -m bench.service --only tasks     1,000 tasks with a reader each
python -m bench.service --only stuck     readers that take nothing
python -m bench.service --only grpc      1,000 gRPC streams of one task
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import socket
import time
from collections.abc import Awaitable, Callable

from bench.ending import clear_up_when_told
from bench.service import peers
from bench.service.http import Address, Answers, closed, connect, get, open_loop, post
from bench.service.served import Server, chained, floor, replan
from bench.service.watching import Reader, quantile, watch

WATCHERS = 1000
_MOST_SECS = 180.0
"""For what ends by itself, if all is well."""
Watching = Callable[[bool], Awaitable[Reader]]
"""Begins to watch; whether it is timed."""


def submit_body(steps: int = 3) -> bytes:
    return json.dumps(chained(steps)).encode()


async def new_task(at: Address, steps: int, secs: float = 0.0) -> str:
    connection = await connect(at)
    status, body = await connection.call(post("/api/v1/tasks", json.dumps(chained(steps, secs)).encode(), at))
    assert status == 202, body
    task_id: str = json.loads(body)["task_id"]
    assert connection.transport is not None
    connection.transport.close()
    return task_id


async def ended(at: Address, task_id: str) -> None:
    connection = await connect(at)
    status, body = await connection.call(get(f"/api/v1/tasks/{task_id}/result?wait=300", at))
    assert status == 200, body


async def measured(
    label: str, server: Server, load: Awaitable[Answers], beside: float | None = None
) -> float:
    """The rate, which is told; also as a part of that of something else."""
    cpu = server.cpu_secs
    found = await load
    row(label, found, 1000 * (server.cpu_secs - cpu) / max(1, len(found.secs)), beside)
    return found.rate


def row(label: str, found: Answers, cpu_ms: float, beside: float | None) -> None:
    statuses = {status: count for status, count in found.statuses.items() if status not in (200, 201, 202)}
    odd = f"  others: {statuses}" if statuses else ""
    odd += f"  broken: {found.broken}" if found.broken else ""
    part = f"   {found.rate / beside:5.2f} of bare" if beside else ""
    print(
        f"  {label:44} {found.rate:8,.0f}/s   p50 {found.ms(0.5):7.2f} ms   p99 {found.ms(0.99):7.2f} ms   CPU {cpu_ms:6.3f} ms a call{part}{odd}",
        flush=True,
    )


# ── topics ────────────────────────────────────────────────────────────────────


async def submit() -> None:
    print("submit (a plan of three steps; stored alone, and stored and driven ten at a time)")
    body = submit_body()
    bare_rate = 0.0
    with floor() as bare, replan(places=1) as ours:
        await new_task(ours.at, 1, _MOST_SECS)  # the one place is taken: what comes is stored, and waits
        handed = closed(bare.at, 50, 8000, lambda _: post("/tasks", body, bare.at))
        rate = await measured("bare FastAPI, 50 clients", bare, handed)
        handed = closed(ours.at, 50, 4000, lambda _: post("/api/v1/tasks", body, ours.at))
        await measured("replan, stored alone, 50 clients", ours, handed, rate)
    with floor() as bare, replan() as ours:
        for clients, calls in ((1, 1500), (50, 4000), (500, 4000)):
            handed = closed(bare.at, clients, 2 * calls, lambda _: post("/tasks", body, bare.at))
            rate = await measured(f"bare FastAPI, {clients} clients", bare, handed)
            handed = closed(ours.at, clients, calls, lambda _: post("/api/v1/tasks", body, ours.at))
            await measured(f"replan, {clients} clients", ours, handed, rate)
            await _idle(ours)
            bare_rate = rate if clients == 50 else bare_rate
        handed = open_loop(ours.at, 200, 10, 50, lambda _: post("/api/v1/tasks", body, ours.at))
        await measured("replan, 200 a second, open loop", ours, handed)
    if not peers.there():
        return
    with peers.langgraph() as other:
        handed = closed(other.at, 50, 1000, lambda _: peers.langgraph_run(other.at))
        await measured("LangGraph's server, 50 clients (in memory)", other, handed, bare_rate)
    with peers.adk() as other:
        handed = closed(other.at, 50, 2000, lambda _: post(peers.ADK_SESSIONS, b"{}", other.at))
        await measured("ADK's server, 50 clients (a session)", other, handed, bare_rate)


async def _idle(server: Server) -> None:
    """Wait until everything that was handed in has ended."""
    connection = await connect(server.at)
    while True:
        _, body = await connection.call(get("/metrics", server.at))
        gauges = {
            line.split()[0]: float(line.split()[1])
            for line in body.decode().splitlines()
            if line.startswith("replan_tasks_")
        }
        if not gauges.get("replan_tasks_running") and not gauges.get("replan_tasks_queued"):
            return
        await asyncio.sleep(0.25)


async def status() -> None:
    print("status")
    with floor() as bare, replan() as ours:
        looked = closed(bare.at, 50, 12000, lambda _: get("/tasks/t", bare.at))
        rate = await measured("bare FastAPI, 50 clients", bare, looked)
        for steps in (3, 2000):
            task_id = await new_task(ours.at, steps)
            await ended(ours.at, task_id)
            path = f"/api/v1/tasks/{task_id}"
            looked = closed(ours.at, 50, 6000, lambda _, at=path: get(at, ours.at))  # type: ignore[misc]
            await measured(f"replan, a log of {steps} steps, 50 clients", ours, looked, rate)
    if not peers.there():
        return
    with peers.langgraph() as other:
        path = await peers.langgraph_started(other.at)
        await peers.langgraph_ended(other.at, path)
        looked = closed(other.at, 50, 3000, lambda _: get(path, other.at))
        await measured("LangGraph's server, 50 clients (in memory)", other, looked, rate)
    with peers.adk() as other:
        session = (await peers.called(other.at, post(peers.ADK_SESSIONS, b"{}", other.at)))["id"]
        looked = closed(other.at, 50, 3000, lambda _: get(f"{peers.ADK_SESSIONS}/{session}", other.at))
        await measured("ADK's server, 50 clients (a session)", other, looked, rate)


async def first() -> None:
    print("first event: from the call that submits to the first frame on a new stream")

    async def replans(at: Address) -> Reader:
        return await watch(at, f"/api/v1/tasks/{await new_task(at, 3)}/events", timed=False)

    with replan() as ours:
        await _first("replan", ours.at, replans)
    if not peers.there():
        return
    with peers.langgraph() as other:
        await _first("LangGraph's server", other.at, peers.langgraph_first)
    with peers.adk() as other:
        await _first("ADK's server", other.at, peers.adk_first)


async def _first(label: str, at: Address, begun_by: Callable[[Address], Awaitable[Reader]]) -> None:
    for clients, times in ((1, 60), (50, 8)):
        found: list[float] = []

        async def one(count: int = times, into: list[float] = found) -> None:
            for _ in range(count):
                begun = time.perf_counter()
                reader = await begun_by(at)
                await reader.ended
                if reader.first is not None:
                    into.append(reader.first - begun)

        async with asyncio.timeout(_MOST_SECS):
            await asyncio.gather(*(one() for _ in range(clients)))
        told = f"{label}, {clients} clients"
        print(
            f"  {told:44} p50 {quantile(found, 0.5):7.2f} ms   p99 {quantile(found, 0.99):7.2f} ms",
            flush=True,
        )


async def watchers() -> None:
    print(f"{WATCHERS} watchers of one task (bursts of events every half second)")

    async def frames(at: Address) -> Watching:
        return lambda timed: watch(at, "/frames/", timed=timed)

    async def replans(at: Address) -> Watching:
        path = f"/api/v1/tasks/{await new_task(at, 10, 0.5)}/events"
        return lambda timed: watch(at, path, timed=timed)

    async def langgraphs(at: Address) -> Watching:
        path = await peers.langgraph_started(at, 20, 0.5)
        return lambda timed: peers.langgraph_watch(at, path, timed=timed)

    with floor() as bare:
        await _watched("bare uvicorn", bare, frames)
    with replan() as ours:
        await _watched("replan", ours, replans)
    if peers.there():
        with peers.langgraph() as other:
            await _watched("LangGraph's", other, langgraphs)


async def _watched(label: str, server: Server, begun: Callable[[Address], Awaitable[Watching]]) -> None:
    await asyncio.sleep(0.5)
    before, cpu = server.kib, server.cpu_secs
    watching = await begun(server.at)
    readers = await asyncio.gather(*(watching(n % 10 == 0) for n in range(WATCHERS)))
    await asyncio.sleep(1.5)
    cpu, most = server.cpu_secs, server.kib
    already = sum(reader.frames for reader in readers)
    for reader in readers:
        reader.lags.clear()  # what was there already when it came is not late
    async with asyncio.timeout(_MOST_SECS):
        await asyncio.gather(*(reader.ended for reader in readers))
    spent, counted = server.cpu_secs - cpu, sum(reader.frames for reader in readers) - already
    lags = [lag for reader in readers for lag in reader.lags]
    counts = {reader.frames for reader in readers}
    print(
        f"  {label:16} lag p50 {quantile(lags, 0.5):7.1f}  p99 {quantile(lags, 0.99):7.1f} ms   "
        f"{counted / max(spent, 0.01):9,.0f} frames a CPU second   {(most - before) / WATCHERS:5.1f} KiB each   "
        f"frames {min(counts)}..{max(counts)}",
        flush=True,
    )


async def tasks() -> None:
    print(f"{WATCHERS} tasks with a watcher each")
    with replan(places=WATCHERS) as ours:
        ids = [await new_task(ours.at, 6, 5.0) for _ in range(WATCHERS)]
        readers = await asyncio.gather(
            *(watch(ours.at, f"/api/v1/tasks/{one}/events", timed=True) for one in ids)
        )
        await asyncio.sleep(2)
        for reader in readers:
            reader.lags.clear()
        cpu, begun, already = ours.cpu_secs, time.perf_counter(), sum(reader.frames for reader in readers)
        await asyncio.gather(*(reader.ended for reader in readers))
        took, frames = time.perf_counter() - begun, sum(reader.frames for reader in readers) - already
        lags = [lag for reader in readers for lag in reader.lags]
        print(
            f"  replan: {frames / took:,.0f} events a second, lag p50 {quantile(lags, 0.5):.1f} ms, p99 {quantile(lags, 0.99):.1f} ms, "
            f"CPU {100 * (ours.cpu_secs - cpu) / took:.0f} %, all ended: {all(reader.ended.done() for reader in readers)}"
        )


async def stuck() -> None:
    count, steps = 100, 400
    print(f"{count} readers that take nothing, of a task of {steps} steps")
    with replan() as ours:
        task_id = await new_task(ours.at, 3)
        await ended(ours.at, task_id)
        before, kernel = ours.kib, _kernel_pages()
        task_id = await new_task(ours.at, steps, 0.005)
        sockets = []
        for _ in range(count):
            one = socket.create_connection(ours.at)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(get(f"/api/v1/tasks/{task_id}/events", ours.at, "text/event-stream"))
            sockets.append(one)
        healthy = await watch(ours.at, f"/api/v1/tasks/{task_id}/events", timed=True)
        await healthy.ended
        user, system = (ours.kib - before) / count, (_kernel_pages() - kernel) / count
        print(
            f"  replan: {user:.1f} KiB of its own and {system:.1f} KiB of the kernel's each; a healthy reader beside them: "
            f"lag p50 {quantile(healthy.lags, 0.5):.1f} ms, p99 {quantile(healthy.lags, 0.99):.1f} ms, {healthy.frames} frames"
        )
        for one in sockets:
            one.close()


def _kernel_pages() -> float:
    """KiB that the kernel has in buffers of TCP."""
    with open("/proc/net/sockstat", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("TCP:"))
    return int(line.split()[-1]) * resource.getpagesize() / 1024


async def grpc() -> None:
    print(f"{WATCHERS} gRPC streams of one task, over 20 channels")
    from grpc import aio

    from replan.server.grpc.proto.replan.v1 import replan_pb2 as pb

    with replan() as ours:
        assert ours.grpc is not None
        channels = [
            aio.insecure_channel(
                f"{ours.grpc.host}:{ours.grpc.port}", options=[("grpc.use_local_subchannel_pool", 1)]
            )
            for _ in range(20)
        ]
        task_id = await new_task(ours.at, 10, 0.5)
        lags: list[float] = []
        counts: list[int] = []
        begun = asyncio.Event()

        async def stream(n: int) -> None:
            call = channels[n % 20].unary_stream(
                "/replan.v1.TaskService/WatchTask",
                request_serializer=pb.WatchTaskRequest.SerializeToString,
                response_deserializer=pb.Event.FromString,
            )
            count = 0
            async for event in call(pb.WatchTaskRequest(task_id=task_id)):
                count += 1
                if begun.is_set() and n % 10 == 0:
                    lags.append(time.time() - event.ts)
            counts.append(count)

        streams = [asyncio.create_task(stream(n)) for n in range(WATCHERS)]
        await asyncio.sleep(2)
        begun.set()
        cpu = ours.cpu_secs
        await asyncio.gather(*streams)
        print(
            f"  replan: lag p50 {quantile(lags, 0.5):.1f} ms, p99 {quantile(lags, 0.99):.1f} ms, {sum(counts) / max(0.01, ours.cpu_secs - cpu):,.0f} "
            f"frames a CPU second, frames {min(counts)}..{max(counts)}"
        )
        for channel in channels:
            await channel.close()


TOPICS: dict[str, Callable[[], Awaitable[None]]] = {
    "submit": submit, "status": status, "first": first, "watchers": watchers, "tasks": tasks, "stuck": stuck, "grpc": grpc,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="The service under load, beside bare servers.")
    parser.add_argument(
        "--only", action="append", choices=TOPICS, metavar="TOPIC", help=f"of {', '.join(TOPICS)}"
    )
    parser.add_argument(
        "--setup", action="store_true", help="install the servers of peers, and measure nothing"
    )
    given = parser.parse_args()
    if given.setup:
        peers.set_up()
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    clear_up_when_told()
    for name, run in TOPICS.items():
        if not given.only or name in given.only:
            asyncio.run(run())  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
