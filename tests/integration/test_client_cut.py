"""Ways to the service that break at any time: watchers have the whole log, each event once, and what is asked is done once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from service_process import Service, serving, step

import thorough
from replan.client import Client
from replan.core.events import Record
from replan.errors import ServiceUnreachable, TaskEnded
from tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

MANY = {
    "steps": [
        step("begin", "until", name="go"),
        *(step(f"s{n}", "text", *([f"s{n - 1}"] if n else ["begin"]), size=50 * n) for n in range(12)),
    ]
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("cut")) as running:
        yield running


@contextlib.asynccontextmanager
async def cutting(port: int, rng: random.Random) -> AsyncIterator[str]:
    """The address of a way on which every connection is cut after some bytes of its answers, wherever that is."""
    open_: set[asyncio.StreamWriter] = set()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        with contextlib.suppress(OSError):
            while most > 0 and (data := await reader.read(min(most, 65_536))):
                most -= len(data)
                writer.write(data)
                await writer.drain()

    async def serve(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, on = await asyncio.open_connection("127.0.0.1", port)
        open_.update((back, on))
        asking = asyncio.ensure_future(passed(client, on, 2**40))
        try:
            await passed(server, back, rng.choice((rng.randrange(1, 3_000), rng.randrange(3_000, 15_000))))
        finally:
            asking.cancel()
            for writer in (back, on):
                with contextlib.suppress(OSError):
                    await writer.drain()
                writer.transport.abort() if rng.random() < 0.5 else writer.close()
            open_.difference_update((back, on))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in open_:
            writer.transport.abort()


async def _all(client: Client, task_id: str, after: int) -> list[Record]:
    return [record async for record in client.watch(task_id, after)]


@pytest.mark.parametrize("seed", range(thorough.examples(8)))
async def test_watchers_whose_connections_are_cut_anywhere_have_the_stored_log(
    service: Service, seed: int
) -> None:
    rng = random.Random(seed)
    port = urlsplit(service.url).port or 0
    async with (
        cutting(port, rng) as way,
        Client(service.url) as direct,
        contextlib.AsyncExitStack() as several,
    ):
        task_id = await direct.submit("Many", plan=MANY, evaluation="steps")
        watching = []
        for after in (0, 0, 0, 1, 5):
            client = await several.enter_async_context(Client(way, patience_secs=60))
            watching.append((after, asyncio.create_task(_all(client, task_id, after))))
        service.let_go()
        assert (await direct.wait(task_id)).succeeded
        stored = await direct.history(task_id)
        assert len(stored) > 40
        for after, task in watching:
            assert await asyncio.wait_for(task, 60) == stored[after:]


async def test_a_submit_whose_answer_is_lost_is_sent_again_and_is_one_task(service: Service) -> None:
    with TcpProxy(urlsplit(service.url).port or 0) as way:
        async with Client(f"http://127.0.0.1:{way.port}", patience_secs=30) as client:
            rome = {"steps": [step("s1", "weather", city="Rome")]}
            made: list[str] = []
            for n in range(4):
                way.lose_answers(n % 3)
                made.append(
                    await client.submit("Once", plan=rome, evaluation="steps", context={"session_id": "once"})
                )
            assert len(set(made)) == 4
            assert sorted(one.task_id for one in await client.tasks(session_id="once")) == sorted(made)
            way.lose_answers(2)
            assert (await client.submit("Once", plan=rome, evaluation="steps", task_id="named")) == "named"


async def test_what_steps_in_is_sent_once_and_says_so_where_its_answer_is_lost(service: Service) -> None:
    never = {"steps": [step("s1", "until", name="never")]}
    with TcpProxy(urlsplit(service.url).port or 0) as way:
        async with Client(f"http://127.0.0.1:{way.port}", patience_secs=30) as client:
            task_id = await client.submit("Wait", plan=never, evaluation="steps")
            way.lose_answers()
            with pytest.raises(
                ServiceUnreachable, match="nobody knows whether it was done: look at the task"
            ):
                await client.hint(task_id, "be quick")
            hints = [one for one in await client.history(task_id) if one.type == "hint_given"]
            assert len(hints) == 1
            with contextlib.suppress(TaskEnded):
                await client.cancel(task_id)
            assert (await client.wait(task_id)).status == "cancelled"


async def test_a_file_whose_connection_is_cut_comes_whole(service: Service) -> None:
    large = {"steps": [step("s1", "text", size=700_000)]}
    async with Client(service.url) as direct:
        task_id = (await direct.run("Text", plan=large, evaluation="steps")).task_id
        with TcpProxy(urlsplit(service.url).port or 0) as way:
            async with Client(f"http://127.0.0.1:{way.port}", patience_secs=30) as client:
                shown = await client.step(task_id, "s1")
                kept = shown.step.output["artifact_id"]
                found = bytearray()
                async for piece in client.artifact(task_id, kept):
                    if len(found) < 300_000 <= len(found) + len(piece):
                        way.cut_all()
                    found += piece
                assert bytes(found) == b'"' + b"x" * 700_000 + b'"'
                assert way.cuts
