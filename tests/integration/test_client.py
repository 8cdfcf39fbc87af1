"""The Python client against a real service: the names of `Replan`, its errors, and streams that go on."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from service_process import Service, serving, step

from replan import Replan
from replan.client import Client, SyncClient
from replan.core.events import Record
from replan.errors import (
    AnsweredBefore,
    InputError,
    NoSuchPart,
    PlanInvalid,
    ServiceError,
    ServiceUnreachable,
    TaskEnded,
    TaskExists,
    TaskNotDone,
    TaskNotFound,
)

pytestmark = pytest.mark.anyio

ROME = {"steps": [step("s1", "weather", city="Rome")]}
PAYS = {"steps": [step("s1", "weather", city="Rome"), step("s2", "pay", "s1", amount=7)]}
ENDED = ("task_completed", "task_failed", "task_cancelled", "task_timed_out")
SECS = 30.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture
async def client(service: Service) -> AsyncIterator[Client]:
    async with Client(service.url, patience_secs=5) as made:
        yield made


OF_THE_PROCESS = frozenset(
    {
        *("open", "aclose", "warm", "service", "work", "drives", "serving", "begun", "call", "delete", "kin"),
        *("workers", "waiting_lines", "why_waiting", "deliver", "consumers", "forget_consumer", "tool_problems"),
        *("export_tasks", "import_tasks", "finish_export", "take_back", "prune", "auditing", "audited"),
    }
)  # fmt: skip
"""What a `Replan` does with its own database and tools, which a service keeps to itself."""


def test_the_client_has_the_names_of_the_library() -> None:
    names = {name for name in dir(Replan) if not name.startswith("_")} - OF_THE_PROCESS
    assert names <= set(dir(Client))
    for name in names:
        if not inspect.isfunction(known := inspect.unwrap(getattr(Replan, name))):
            continue
        theirs = set(inspect.signature(getattr(Client, name)).parameters)
        ours = set(inspect.signature(known).parameters) - {"by"}  # the service knows who calls
        assert ours - theirs <= {
            "kwargs",
            "args",
            "evaluation",
            "output_schema",
            "after",
            "secrets",
            "workflow",
            "slots",
        }, name


def test_the_client_for_code_that_is_not_async_has_them_too() -> None:
    names = {name for name in dir(Client) if not name.startswith("_")}
    assert names - {"aclose"} <= set(dir(SyncClient))


async def test_a_task_is_run_to_its_result(client: Client) -> None:
    result = await client.run("Weather", plan=ROME, evaluation="steps")
    assert (result.succeeded, result.output) == (True, {"city": "Rome", "degrees": 4})
    assert [one.status for one in result.steps] == ["succeeded"]
    assert await client.result(result.task_id) == result
    assert (await client.summary(result.task_id)).status == "succeeded"
    assert result.task_id in [one.task_id for one in await client.tasks(["succeeded"])]
    assert result.task_id not in [one.task_id for one in await client.tasks(["failed"])]


async def test_a_task_follows_another_one_and_a_session(client: Client) -> None:
    first = await client.run("Weather", plan=ROME, evaluation="steps", session_id="trip")
    again = {"steps": [step("s1", "weather", city="${previous.s1.output.city}")]}
    for before in ({"previous_task_id": first.task_id}, {"session_id": "trip"}):
        result = await client.run("The same again", plan=again, evaluation="steps", **before)  # type: ignore[call-overload]
        assert result.output == {"city": "Rome", "degrees": 4}
    assert (await client.plan("The same again", plan=again, session_id="trip")).steps[0].tool == "weather"
    assert len(await client.tasks(session_id="trip")) == 2
    waits = await client.run("Pay", plan=PAYS, evaluation="steps", task_id="unfinished")
    assert waits.status == "waiting"
    with pytest.raises(TaskNotDone, match="has not ended"):
        await client.submit("Again", plan=again, previous_task_id="unfinished")
    with pytest.raises(InputError, match="given twice"):
        await client.submit("Again", context={"session_id": "a"}, session_id="b")


class Weather(BaseModel):
    city: str
    degrees: int


async def test_the_answer_is_of_the_type_that_is_asked_for(client: Client) -> None:
    result = await client.run("Weather", output_type=Weather, plan=ROME, evaluation="steps")
    assert result.output == Weather(city="Rome", degrees=4)
    with pytest.raises(InputError, match="not both"):
        await client.run("Weather", output_type=Weather, output_schema={}, plan=ROME)  # type: ignore[call-overload]


async def test_a_call_is_agreed_to_as_it_was_shown(client: Client, service: Service) -> None:
    result = await client.run("Pay", plan=PAYS, evaluation="steps", task_id="pays")
    assert result.status == "waiting"
    assert [one.status for one in result.steps] == ["succeeded", "waiting"]
    (asked,) = [one for one in await client.waiting() if one.task_id == "pays"]
    assert (await client.approval("pays")).parameters == {"amount": 7}
    assert (await client.approval("pays", parameters={"amount": 5})).parameters == {"amount": 5}
    with pytest.raises(AnsweredBefore):
        await client.approve("pays", call_hash="of-another-call")
    await client.approve("pays", asked.waiting_for.id, call_hash=asked.hash)
    assert (await client.wait("pays")).output == {"paid": 7}
    with pytest.raises(TaskEnded):
        await client.approve("pays", asked.waiting_for.id)
    with pytest.raises(InputError, match="no open approval"):
        await client.approve("pays")
    assert (service.folder / "paid.txt").read_text() == "7\n"


async def test_what_goes_wrong_is_the_error_that_the_library_raises(client: Client) -> None:
    task_id = (await client.run("Weather", plan=ROME, evaluation="steps", task_id="known")).task_id
    bad = {"steps": [step("s1", "nothing")]}
    for raised, words, call in (
        (TaskNotFound, "there is no task 'nobody'", client.task("nobody")),
        (TaskNotFound, "there is no task", client.task("../tasks")),
        (TaskNotFound, "there is no task", client.wait("nobody")),
        (TaskEnded, "has ended", client.hint(task_id, "be quick")),
        (TaskEnded, "has ended", client.cancel(task_id)),
        (NoSuchPart, "it has: s1", client.step(task_id, "s9")),
        (
            TaskExists,
            "different request",
            client.submit("Other", task_id="known", plan=ROME, evaluation="steps"),
        ),
        (InputError, "task", client.submit("")),
        (InputError, "cannot be JSON", client.submit("x", metadata={"at": float("nan")})),
        (InputError, "idempotency-key", client.submit("x", idempotency_key="a\nb")),
        (InputError, "idempotency-key", client.submit("x", idempotency_key="é")),
        (InputError, "env:", client.submit("x", secrets={"key": "plain"})),
    ):
        with pytest.raises(raised, match=words) as told:
            await call
        assert type(told.value) is raised or raised is InputError
    with pytest.raises(PlanInvalid, match="nothing") as invalid:
        await client.plan("Bad", plan=bad)
    assert invalid.value.violations


async def test_outputs_come_whole_and_by_piece(client: Client) -> None:
    wanted = {"steps": [step("s1", "text", size=400_000), step("s2", "weather", city="Oslo")]}
    task_id = (await client.run("Text", plan=wanted, evaluation="steps")).task_id
    assert await client.output(task_id, "s1") == "x" * 400_000
    assert b"".join([one async for one in client.output_pieces(task_id, "s1")]) == b"x" * 400_000
    assert [one async for one in client.output_pieces(task_id, "s2", path="degrees")] == [b"4\n"]


async def test_interventions_reach_the_task(client: Client, service: Service) -> None:
    waits = {"steps": [step("s1", "until", name="later"), step("s2", "weather", "s1", city="Bern")]}
    task_id = await client.submit("Wait", plan=waits, evaluation="steps")
    await client.hint(task_id, "be quick")
    await client.pause(task_id, "lunch")
    service.let_go("later")
    assert (await asyncio.wait_for(client.wait(task_id), SECS)).status == "waiting"
    assert (await client.resume(task_id, reason="back")).succeeded
    forked = await client.fork(task_id, judge=True, reason="look again")
    assert (await client.wait(forked)).succeeded
    cancelled = await client.submit(
        "Wait", plan={"steps": [step("s1", "until", name="never")]}, evaluation="steps"
    )
    await client.cancel(cancelled, "enough")
    assert (await client.wait(cancelled)).status == "cancelled"


async def test_a_caller_that_is_cancelled_cancels_its_task(client: Client) -> None:
    never = {"steps": [step("s1", "until", name="never")]}
    running = asyncio.create_task(client.run("Wait", plan=never, evaluation="steps", task_id="left"))
    async with asyncio.timeout(SECS):
        while "left" not in [one.task_id for one in await client.tasks()]:
            pass
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await client.wait("left")).status == "cancelled"


async def test_a_preview_and_the_tools_are_shown(client: Client) -> None:
    seen = await client.preview("Pay", plan=PAYS, evaluation="steps")
    assert (seen.effects, seen.approvals) == (("s2: pay (once)",), ("s2",))
    assert {"pay", "weather"} <= {one.id for one in await client.tools()}
    await client.run("Weather", plan=ROME, evaluation="steps")
    (stats,) = await client.tool_stats("weather")
    assert stats.calls >= 1
    assert (await client.health()).status == "healthy"
    assert (await client.ready()).ready


async def test_the_log_that_is_watched_is_the_log_that_is_stored(client: Client) -> None:
    task_id = await client.submit("Pay", plan=PAYS, evaluation="steps")
    seen: list[Record] = []
    async for record in client.watch(task_id, ephemeral=True):
        if record.seq:
            seen.append(record)
        if record.type == "task_waiting":
            await client.reject(task_id, reason="no")
    assert seen[-1].type in ENDED
    assert seen == await client.history(task_id)
    assert [one async for one in client.watch(task_id, seen[-1].seq)] == []
    assert [one async for one in client.watch(task_id, 3)] == seen[3:]


def test_code_that_is_not_async_has_the_same(service: Service) -> None:
    with SyncClient(service.url) as client:
        result = client.run("Weather", plan=ROME, evaluation="steps")
        assert result.output == {"city": "Rome", "degrees": 4}
        assert [one.type for one in client.watch(result.task_id)][-1] == "task_completed"
        for one in client.watch(result.task_id):
            assert one.seq == 1
            break
        with pytest.raises(TaskNotFound):
            client.task("nobody")
    with pytest.raises(RuntimeError, match="closed"):
        client.health()
    client.close()


async def test_a_service_that_is_not_there_is_said_to_be_none() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
    async with Client(f"http://127.0.0.1:{number}", patience_secs=0.2) as client:
        for call in (client.health(), client.submit("x"), client.cancel("t")):
            with pytest.raises(ServiceUnreachable, match=f"127.0.0.1:{number} cannot be reached"):
                await call
        with pytest.raises(ServiceUnreachable):
            await anext(client.watch("t"))


async def test_something_else_than_a_service_is_said_to_be_that() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        number = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{number}", patience_secs=0.2) as client:
            with pytest.raises(ServiceError, match="is it the address of a Replan service"):
                await client.task("t")
            with pytest.raises(ServiceError):
                await anext(client.watch("t"))


async def test_watchers_and_waiters_do_not_notice_that_the_service_is_started_anew(tmp_path: Path) -> None:
    """Killed while it works, and once more told to end: every watcher has the stored log, whole and once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    wanted = {
        "steps": [
            step("s1", "until", name="one"), step("s2", "until", "s1", name="two"),
            step("s3", "until", "s2", name="three"),
        ]
    }  # fmt: skip
    async with Client(f"http://127.0.0.1:{port}", patience_secs=60) as client:

        async def watched(after: int) -> list[Record]:
            return [one async for one in client.watch("t", after)]

        with serving(tmp_path, port=port) as first:
            assert await client.submit("Wait", plan=wanted, evaluation="steps", task_id="t") == "t"
            watching = [asyncio.create_task(watched(after)) for after in (0, 0, 2)]
            waiting = asyncio.create_task(client.wait("t"))
            await _seen(client, "s1")
            first.let_go("one")
            await _seen(client, "s2")
            os.kill(first.process.pid, signal.SIGKILL)
            await asyncio.to_thread(first.process.communicate)
        submitting = asyncio.create_task(client.submit("More", plan=ROME, evaluation="steps"))
        with serving(tmp_path, "--grace", "0.2", port=port) as second:
            second.let_go("two")
            await _seen(client, "s3")
            await asyncio.to_thread(second.end)
        with serving(tmp_path, port=port) as third:
            third.let_go("three")
            result = await asyncio.wait_for(waiting, 60)
            assert result.succeeded
            stored = await client.history("t")
            for after, task in zip((0, 0, 2), watching, strict=True):
                assert await asyncio.wait_for(task, 60) == stored[after:]
            assert (await client.wait(await submitting)).succeeded


async def _seen(client: Client, step_id: str) -> None:
    """Return once the step has been started."""
    async for record in client.watch("t"):
        if record.type == "call_started" and record.event.step_id == step_id:  # type: ignore[union-attr]
            return


def test_an_interrupt_of_code_that_is_not_async_cancels_its_task(service: Service) -> None:
    plan = {"steps": [step("s1", "until", name="never")]}
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from replan.client import SyncClient\n"
        f"with SyncClient({service.url!r}) as client:\n"
        f"    client.run('Wait', plan={plan!r}, evaluation='steps', task_id='interrupted')\n"
    )
    with SyncClient(service.url) as client:
        process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, encoding="utf-8")
        try:
            while "interrupted" not in [one.task_id for one in client.tasks()]:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=SECS)
        finally:
            process.kill()
            process.wait()
        assert "KeyboardInterrupt" in told
        assert client.wait("interrupted").status == "cancelled"
