"""Whoever watches a task has its whole log in the end, once and in order: with connections cut anywhere, and the service killed in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import service_here
from service_process import Service, plan, serving, step

from replan import tool

pytestmark = pytest.mark.anyio
SECS = 60.0


@tool(effect="reads")
def weather(city: str) -> dict[str, int]:
    return {city: len(city)}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Parsed:
    """What is whole of a stream that may end anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def more(self, data: bytes) -> list[dict[str, Any]]:
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        found = []
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.splitlines() if not line.startswith(b":"))
            if b"id" in fields:
                event = json.loads(fields[b"data"])
                assert event["seq"] == int(fields[b"id"])
                assert event["type"] == fields[b"event"].decode()
                found.append(event)
        return found


async def watch(url: str, task_id: str, chance: random.Random, joined: list[dict[str, Any]]) -> None:
    """Watch to the end, over any number of cut connections."""
    async with httpx2.AsyncClient(trust_env=False, timeout=SECS) as client:
        while not (joined and joined[-1]["type"] == "task_completed"):
            seen = {"Last-Event-ID": str(joined[-1]["seq"])} if joined else {}
            left = chance.choice([1, 10, 100, 1_000, 10_000, 1_000_000])
            parsed = Parsed()
            try:
                async with client.stream("GET", f"{url}/tasks/{task_id}/events", headers=seen) as stream:
                    if stream.status_code != 200:
                        await asyncio.sleep(0.02)
                        continue
                    async for data in stream.aiter_raw():
                        joined += parsed.more(data[:left])
                        left -= len(data)
                        if left <= 0:
                            break  # the connection is cut here
            except httpx2.HTTPError:
                await asyncio.sleep(0.02)


def chain(count: int) -> dict[str, Any]:
    steps = [step("s0", "until", name="go")]
    steps += [
        step(f"s{number}", "weather", f"s{number - 1}", city="x" * number) for number in range(1, count)
    ]
    return plan(*steps)


async def joined_logs(folder: Path, seed: int, kills: int) -> None:
    chance, port = random.Random(seed), free_port()
    ids = [f"t{number}" for number in range(3)]
    logs: list[tuple[str, list[dict[str, Any]]]] = [(ids[number % 3], []) for number in range(18)]

    async def begun(stack: contextlib.ExitStack) -> Service:
        return await asyncio.to_thread(stack.enter_context, serving(folder, "--grace", "0", port=port))

    async def killed(service: Service, after: int) -> None:
        """When so many events were seen."""

        def seen_enough() -> bool:
            return sum(len(joined) for _, joined in logs) >= after or all(one.done() for one in watchers)

        while not seen_enough():  # noqa: ASYNC110 -- it is others that get on
            await asyncio.sleep(0.002)
        service.process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        await asyncio.to_thread(service.process.communicate)

    with contextlib.ExitStack() as stack:
        service = await begun(stack)
        with service.client() as http:
            for task_id in ids:
                assert http.post("/tasks", json={**chain(12), "task_id": task_id}).status_code == 202
        watchers = [
            asyncio.create_task(watch(service.api, task_id, random.Random(seed * 100 + number), joined))
            for number, (task_id, joined) in enumerate(logs)
        ]
        await killed(service, chance.randrange(18))
        service.let_go()
        for _ in range(kills):
            service = await begun(stack)
            seen = sum(len(joined) for _, joined in logs)
            await killed(service, seen + chance.randrange(300))
        service = await begun(stack)
        async with asyncio.timeout(SECS):
            await asyncio.gather(*watchers)
        with service.client(headers={"accept": "application/json"}) as http:
            for task_id in ids:
                stored = http.get(f"/tasks/{task_id}/events?limit=500").json()["items"]
                assert all(joined == stored for of, joined in logs if of == task_id)


async def test_the_joined_log_of_every_watcher_is_the_stored_one(tmp_path: Path) -> None:
    await joined_logs(tmp_path, seed=7, kills=1)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(20))
async def test_the_joined_log_of_every_watcher_is_the_stored_one_whenever_it_is_killed(
    tmp_path: Path, seed: int
) -> None:
    await joined_logs(tmp_path, seed, kills=3)


async def first_of(client: httpx2.AsyncClient, size: int) -> bytes:
    """So many bytes of the stream; then the connection is cut."""
    found = b""
    async with client.stream("GET", "/tasks/t/events") as stream:
        async for data in stream.aiter_raw():
            found += data
            if len(found) >= size:
                break
    return found[:size]


async def cut_at(folder: Path, places: Callable[[int], Iterable[int]]) -> None:
    async with (
        service_here(folder, tools=[weather]) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False, timeout=SECS) as client,
    ):
        body = {
            **plan(step("s1", "weather", city="Rome"), step("s2", "weather", city="Ålesund")),
            "task_id": "t",
        }
        assert (await client.post("/tasks", json=body)).status_code == 202
        assert (await client.get("/tasks/t/result", params={"wait": SECS})).status_code == 200
        whole = (await client.get("/tasks/t/events")).content
        events = Parsed().more(whole)
        for place in places(len(whole)):
            seen = Parsed().more(await first_of(client, place))
            last = seen[-1]["seq"] if seen else 0
            rest = await client.get("/tasks/t/events", headers={"Last-Event-ID": str(last)})
            assert rest.status_code == (204 if last == events[-1]["seq"] else 200)
            assert seen + Parsed().more(rest.content) == events


async def test_a_stream_that_is_cut_at_a_byte_goes_on_without_a_gap(tmp_path: Path) -> None:
    await cut_at(tmp_path, lambda size: (*range(0, size, 211), size))


@pytest.mark.prove
async def test_a_stream_that_is_cut_at_any_byte_goes_on_without_a_gap(tmp_path: Path) -> None:
    await cut_at(tmp_path, lambda size: range(size + 1))
