"""The service under load, beside bare servers in the same run.

python -m bench.service                  everything (some five minutes)
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
from bench.service.http import Address, Answers, closed, connect, get, open_loop, post
from bench.service.served import Server, chained, floor, replan
from bench.service.watching import quantile, watch

WATCHERS = 1000


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


async def measured(label: str, server: Server, load: Awaitable[Answers]) -> None:
    cpu = server.cpu_secs
    found = await load
    row(label, found, 1000 * (server.cpu_secs - cpu) / max(1, len(found.secs)))


def row(label: str, found: Answers, cpu_ms: float) -> None:
    statuses = {status: count for status, count in found.statuses.items() if status not in (200, 202)}
    odd = f"  others: {statuses}" if statuses else ""
    odd += f"  broken: {found.broken}" if found.broken else ""
    print(
        f"  {label:44} {found.rate:8,.0f}/s   p50 {found.ms(0.5):7.2f} ms   p99 {found.ms(0.99):7.2f} ms   CPU {cpu_ms:6.3f} ms a call{odd}",
        flush=True,
    )


# ── topics ────────────────────────────────────────────────────────────────────


async def submit() -> None:
    print("submit (a plan of three steps; stored, and driven ten at a time)")
    body = submit_body()
    with floor() as bare, replan() as ours:
        for clients, calls in ((1, 1500), (50, 4000), (500, 4000)):
            handed = closed(bare.at, clients, 2 * calls, lambda _: post("/tasks", body, bare.at))
            await measured(f"bare FastAPI, {clients} clients", bare, handed)
            handed = closed(ours.at, clients, calls, lambda _: post("/api/v1/tasks", body, ours.at))
            await measured(f"replan, {clients} clients", ours, handed)
            await _idle(ours)
        handed = open_loop(ours.at, 200, 10, 50, lambda _: post("/api/v1/tasks", body, ours.at))
        await measured("replan, 200 a second, open loop", ours, handed)


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
        for steps in (3, 2000):
            task_id = await new_task(ours.at, steps)
            await ended(ours.at, task_id)
            path = f"/api/v1/tasks/{task_id}"
            looked = closed(ours.at, 50, 6000, lambda _, at=path: get(at, ours.at))  # type: ignore[misc]
            await measured(f"replan, a log of {steps} steps, 50 clients", ours, looked)
        looked = closed(bare.at, 50, 12000, lambda _: get("/tasks/t", bare.at))
        await measured("bare FastAPI, 50 clients", bare, looked)


async def first() -> None:
    print("first event: from the call that submits to the first frame on a new stream")
    with replan() as ours:
        for clients, times in ((1, 60), (50, 8)):
            found: list[float] = []

            async def one(count: int = times, into: list[float] = found) -> None:
                for _ in range(count):
                    begun = time.perf_counter()
                    task_id = await new_task(ours.at, 3)
                    reader = await watch(ours.at, f"/api/v1/tasks/{task_id}/events", timed=False)
                    await reader.ended
                    if reader.first is not None:
                        into.append(reader.first - begun)

            await asyncio.gather(*(one() for _ in range(clients)))
            print(
                f"  replan, {clients} clients{'':27} p50 {quantile(found, 0.5):7.2f} ms   p99 {quantile(found, 0.99):7.2f} ms"
            )


async def watchers() -> None:
    print(f"{WATCHERS} watchers of one task (bursts of events every half second)")
    with floor() as bare:
        await _watched("bare uvicorn", bare, "/frames/", None)
    with replan() as ours:
        await _watched("replan", ours, "", 10)


async def _watched(label: str, server: Server, path: str, steps: int | None) -> None:
    await asyncio.sleep(0.5)
    before, cpu = server.kib, server.cpu_secs
    if steps is not None:
        path = f"/api/v1/tasks/{await new_task(server.at, steps, 0.5)}/events"
    readers = await asyncio.gather(*(watch(server.at, path, timed=n % 10 == 0) for n in range(WATCHERS)))
    await asyncio.sleep(1.5)
    cpu, most = server.cpu_secs, server.kib
    already = sum(reader.frames for reader in readers)
    for reader in readers:
        reader.lags.clear()  # what was there already when it came is not late
    await asyncio.gather(*(reader.ended for reader in readers))
    spent, frames = server.cpu_secs - cpu, sum(reader.frames for reader in readers) - already
    lags = [lag for reader in readers for lag in reader.lags]
    counts = {reader.frames for reader in readers}
    print(
        f"  {label:16} lag p50 {quantile(lags, 0.5):7.1f}  p99 {quantile(lags, 0.99):7.1f} ms   "
        f"{frames / max(spent, 0.01):9,.0f} frames a CPU second   {(most - before) / WATCHERS:5.1f} KiB each   "
        f"frames {min(counts)}..{max(counts)}"
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
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    clear_up_when_told()
    for name, run in TOPICS.items():
        if not given.only or name in given.only:
            asyncio.run(run())  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
