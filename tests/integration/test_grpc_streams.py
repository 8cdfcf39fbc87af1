"""Events over gRPC: watched from anywhere, ended with the service, bounded; and conversations, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_health")
pytest.importorskip("grpc_reflection")

import grpc
import grpc.aio
from access_world import ASKED, PLAIN, SECS
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_world import Grpc, serving, task, told
from run_tasks import plan, step
from test_grpc_calls import HOLDS, fields, submitted

from replan.config import Settings
from replan.core.types import JsonObject
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.grpc.connections import SPARE
from replan.server.grpc.conversation import framed
from replan.server.grpc.messages import SERVICE, pb
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio
CHAIN = plan(step("a", "look"), step("b", "look", "a"), step("c", "look", "b"), step("d", "look", "c"))


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Grpc]:
    async with serving(tmp_path) as made:
        yield made


async def until(call: Any, kind: str) -> Any:
    async with asyncio.timeout(SECS):
        async for event in call:
            if event.type == kind:
                return event
    raise AssertionError(f"no {kind} came")


async def status(there: Grpc, task_id: str, wanted: str) -> str:
    """The task's status, as soon as it is that one."""
    async with asyncio.timeout(SECS):
        async for record in there.there.replan.watch(task_id):
            if record.type in (wanted, "task_cancelled", "task_completed"):
                break
    return str((await there.call("GetTask", task_id=task_id)).status)


async def read_on(conversation: Any) -> None:
    """Read a conversation to its end."""
    while await conversation.read() is not grpc.aio.EOF:
        pass


async def admitted(there: Grpc, task_id: str) -> AsyncIterator[Any]:
    """The events of a task, once the service has seen that somebody else has left."""
    async with asyncio.timeout(SECS):
        while True:
            try:
                async for event in there.call("WatchTask", task_id=task_id):
                    yield event
                return
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise


# ── watching ──


async def test_watchers_who_are_cut_off_anywhere_have_the_whole_log_together(there: Grpc) -> None:
    task_id = await submitted(there, CHAIN)
    chance = random.Random(7)

    async def watched() -> list[int]:
        seen: list[int] = []
        while True:
            call = there.call("WatchTask", task_id=task_id, after=seen[-1] if seen else 0)
            left = chance.randint(1, 6)
            async for event in call:
                seen.append(event.seq)
                if event.type == "task_completed":
                    return seen
                left -= 1
                if not left:
                    call.cancel()
                    break

    async with asyncio.timeout(SECS):
        found = await asyncio.gather(*(watched() for _ in range(8)))
    stored = [record.seq for record in await there.there.replan.history(task_id)]

    assert found == [stored] * 8


async def test_a_task_that_has_ended_is_watched_to_its_end_and_after_it_nothing_comes(there: Grpc) -> None:
    task_id = await submitted(there)
    await there.call("GetResult", task_id=task_id, wait_secs=SECS)
    whole = [event async for event in there.call("WatchTask", task_id=task_id)]
    rest = [event.seq async for event in there.call("WatchTask", task_id=task_id, after=3)]
    none = [event async for event in there.call("WatchTask", task_id=task_id, after=whole[-1].seq)]

    assert rest == [event.seq for event in whole[3:]]
    assert none == []


async def test_watchers_of_one_form_share_what_is_encoded(there: Grpc) -> None:
    task_id = await submitted(there, HOLDS)
    calls = [there.call("WatchTask", task_id=task_id) for _ in range(20)]
    firsts = [await until(call, "call_started") for call in calls]
    assert there.here.hub.watchers == 20
    there.there.source.let_go.set()
    lasts = [await until(call, "task_completed") for call in calls]

    assert {one.seq for one in firsts} == {firsts[0].seq}
    assert {one.data_json for one in lasts} == {lasts[0].data_json}


async def test_news_that_is_not_stored_has_no_number(tmp_path: Path) -> None:
    reports = FakeTool(output="seen", progress=["half way"])
    async with serving(tmp_path, tools={"look": reports}) as there:
        task_id = await submitted(there, plan(step("h", "hold"), step("a", "look", "h")))
        call = there.call("WatchTask", task_id=task_id)
        await until(call, "call_started")
        there.there.source.let_go.set()
        events = [event async for event in call]

    told_only = [event for event in events if event.type == "step_progress"]
    assert [event.seq for event in told_only] == [0]
    assert "half way" in told_only[0].data_json
    assert all(event.seq for event in events if event.type != "step_progress")


# ── the end of a call is not that of its task, unless that was said ──


@pytest.mark.parametrize("how", ["cancelled", "deadline"])
@pytest.mark.parametrize("with_call", [False, True])
async def test_a_task_is_cancelled_with_its_call_only_where_that_was_asked(
    there: Grpc, how: str, with_call: bool
) -> None:
    timeout = 1.5 if how == "deadline" else None
    call = there.call("ExecuteTask", task=task(HOLDS), cancel_with_call=with_call, timeout=timeout)
    started = await until(call, "call_started")
    if how == "cancelled":
        call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        assert await call.code() == (
            grpc.StatusCode.CANCELLED if how == "cancelled" else grpc.StatusCode.DEADLINE_EXCEEDED
        )
    if with_call:
        async with asyncio.timeout(SECS):
            await until(there.call("WatchTask", task_id=started.task_id), "cancel_requested")
    there.there.source.let_go.set()
    done = await there.call("GetResult", task_id=started.task_id, wait_secs=SECS)

    assert done.status == ("cancelled" if with_call else "succeeded")


async def test_a_task_that_is_there_already_is_watched_from_where_it_was_left(there: Grpc) -> None:
    first = [event async for event in there.call("ExecuteTask", task=task(task_id="mine"))]
    again = [
        event async for event in there.call("ExecuteTask", task=task(task_id="mine"), after=first[4].seq)
    ]

    assert [event.seq for event in again] == [event.seq for event in first[5:]]


# ── bounds ──


async def test_past_the_limit_connections_are_closed_and_those_that_are_open_are_served(
    tmp_path: Path,
) -> None:
    settings = Settings.model_validate({"server": {"max_connections": 2}})
    async with serving(tmp_path, settings=settings) as there, contextlib.AsyncExitStack() as held:
        task_id = await submitted(there, PLAIN)
        host, port = there.address.split(":")
        ends = []
        for _ in range(2 + SPARE + 20):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")  # and its settings
            held.push_async_callback(_closed, writer)
            ends.append(asyncio.ensure_future(_end(reader)))
        async with asyncio.timeout(SECS):
            while sum(end.done() for end in ends) < 20:
                await asyncio.wait(
                    [end for end in ends if not end.done()], return_when=asyncio.FIRST_COMPLETED
                )
        row = await there.call("GetTask", task_id=task_id)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
    assert row.task_id == task_id


async def _end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while await reader.read(65_536):
            pass


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_past_the_limit_a_stream_is_refused_and_other_calls_are_not(tmp_path: Path) -> None:
    settings = Settings.model_validate({"server": {"max_connections": 2}})
    async with serving(tmp_path, settings=settings) as there:
        task_id = await submitted(there, HOLDS)
        calls = [there.call("WatchTask", task_id=task_id) for _ in range(2)]
        for call in calls:
            await until(call, "call_started")
        refused = await there.refused(there.call("WatchTask", task_id=task_id))
        row = await there.call("GetTask", task_id=task_id)
        calls[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calls[0].code()
        await until(admitted(there, task_id), "call_started")
        there.there.source.let_go.set()

    assert (refused.code, refused.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_CONNECTIONS")
    assert refused.retry_after is not None
    assert row.task_id == task_id


async def test_a_message_that_unpacks_to_too_much_is_refused_before_it_does(there: Grpc) -> None:
    bomb = pb.SubmitTaskRequest(task_description="x" * 60_000_000)
    call = there.channel.unary_unary(f"/{SERVICE}/SubmitTask", pb.SubmitTaskRequest.SerializeToString)(
        bomb, compression=grpc.Compression.Gzip
    )

    assert (await there.refused(call)).code == "RESOURCE_EXHAUSTED"


async def test_a_message_that_is_too_large_is_refused(there: Grpc) -> None:
    found = await there.refused(there.call("SubmitTask", task_description="x" * (5 * 2**20)))
    after = await there.call("ListTasks")

    assert (found.code, len(after.items)) == ("RESOURCE_EXHAUSTED", 0)


async def test_a_result_that_does_not_come_in_time_is_no_fault_of_the_service(there: Grpc) -> None:
    task_id = await submitted(there, HOLDS)
    found = await there.refused(there.call("GetResult", task_id=task_id, wait_secs=0.05))
    late = await there.refused(there.call("GetResult", task_id=task_id, wait_secs=SECS, timeout=0.2))
    there.there.source.let_go.set()

    assert (found.code, late.code) == ("FAILED_PRECONDITION", "DEADLINE_EXCEEDED")


async def test_open_streams_end_with_the_service_and_say_how_to_go_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as there:
        task_id = await submitted(there, HOLDS)
        call = there.call("WatchTask", task_id=task_id)
        started = await until(call, "call_started")
        conversation = there.converse()
        await conversation.write(pb.ConverseRequest(watch=pb.WatchTaskRequest(task_id=task_id, after=2)))
        assert (await conversation.read()).opened.task_id == task_id
        health = health_pb2_grpc.HealthStub(there.channel).Watch(
            health_pb2.HealthCheckRequest(service=SERVICE)
        )
        standing = [(await health.read()).status]
        there.here.leaving.set()
        there.here.hub.stop()
        ended = await there.refused(call)
        talked = await there.refused(read_on(conversation))
        standing.append((await health.read()).status)
        new = await there.refused(there.call("GetTask", task_id=task_id))
        there.there.source.let_go.set()

    assert (ended.code, ended.reason) == ("UNAVAILABLE", "LEAVING")
    assert f"after={started.seq}" in ended.message
    assert talked.code == "UNAVAILABLE"
    assert standing == [
        health_pb2.HealthCheckResponse.SERVING,
        health_pb2.HealthCheckResponse.NOT_SERVING,
    ]
    assert new.code == "UNAVAILABLE"


# ── conversations ──


class Talk:
    """A conversation, message by message."""

    def __init__(self, there: Grpc) -> None:
        self._call = there.converse()
        self._heard: list[Any] = []

    @property
    def events(self) -> list[str]:
        """What events were heard so far."""
        return [one.event.type for one in self._heard if one.WhichOneof("response") == "event"]

    async def say(self, **said: Any) -> None:
        await self._call.write(pb.ConverseRequest(**said))

    async def close(self) -> None:
        await self._call.done_writing()

    async def hear(self, kind: str) -> Any:
        """The next of that kind."""
        async with asyncio.timeout(SECS):
            while (heard := await self._call.read()) is not grpc.aio.EOF:
                self._heard.append(heard)
                if heard.WhichOneof("response") == kind:
                    return getattr(heard, kind)
        raise AssertionError(f"no {kind} came")

    async def rest(self) -> None:
        """Hear it to its end."""
        async with asyncio.timeout(SECS):
            while (heard := await self._call.read()) is not grpc.aio.EOF:
                self._heard.append(heard)


def execute(wanted: JsonObject = PLAIN) -> Any:
    return pb.ExecuteTaskRequest(task=task(wanted))


async def test_a_call_that_waits_is_told_with_its_hash_and_agreed_to_on_the_same_stream(there: Grpc) -> None:
    talk = Talk(there)
    await talk.say(execute=execute(ASKED))
    opened = await talk.hear("opened")
    one = await talk.hear("waiting")
    answer = pb.AnswerApprovalRequest(approval_id=one.waiting_for.id, approved=True)
    await talk.say(id="1", approve=answer)
    refused = await talk.hear("refused")
    answer.hash = one.hash
    await talk.say(id="2", approve=answer)
    done = await talk.hear("done")
    await talk.rest()

    assert (opened.new, opened.task_id) == (True, one.task_id)
    assert json.loads(one.waiting_for.parameters_json) == {"amount": 7}
    assert (refused.id, refused.code, refused.reason) == ("1", 3, "INPUT_ERROR")
    assert (done.id, done.task.task_id) == ("2", opened.task_id)
    assert talk.events[-1] == "task_completed"


async def test_whoever_comes_later_is_told_what_waits_already_and_a_rejection_is_heard(there: Grpc) -> None:
    task_id = await submitted(there, ASKED)
    await there.there.waits(task_id)
    row = await there.call("GetTask", task_id=task_id)
    talk = Talk(there)
    await talk.say(watch=pb.WatchTaskRequest(task_id=task_id, after=row.last_seq))
    one = await talk.hear("waiting")
    rejected = pb.AnswerApprovalRequest(approval_id=one.waiting_for.id, approved=False, reason="not today")
    await talk.say(id="n", approve=rejected)
    await talk.hear("done")
    await talk.rest()

    assert "approval_resolved" in talk.events
    assert talk.events[-1] == "task_failed", "there was no other way"


async def test_a_running_task_is_steered_and_each_request_is_answered_in_turn(there: Grpc) -> None:
    talk = Talk(there)
    await talk.say(execute=execute(HOLDS))
    opened = await talk.hear("opened")
    await asyncio.wait_for(there.there.source.entered.wait(), SECS)
    await talk.say(id="h", hint=pb.GiveHintRequest(text="quick"))
    await talk.say(id="p", pause=pb.PauseTaskRequest())
    await talk.say(id="r", resume=pb.ResumeTaskRequest(task_id=opened.task_id))
    await talk.say(id="x", retry=pb.StepReasonRequest(step_id="none"))
    await talk.say(id="o", hint=pb.GiveHintRequest(task_id="another", text="quick"))
    await talk.say(id="w", watch=pb.WatchTaskRequest(task_id=opened.task_id))
    await talk.say(id="e")
    await talk.say(id="c", cancel=pb.ReasonRequest())
    await talk.close()
    heard = [await talk.hear("done") for _ in range(3)]
    refused = [await talk.hear("refused") for _ in range(4)]
    heard.append(await talk.hear("done"))
    await talk.rest()

    assert [one.id for one in heard] == ["h", "p", "r", "c"]
    assert [one.id for one in refused] == ["x", "o", "w", "e"]
    assert "is about task" in refused[1].message
    assert talk.events[-1] == "task_cancelled"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (None, "nothing was said"),
        (pb.ConverseRequest(), "it began with no request"),
        (pb.ConverseRequest(cancel=pb.ReasonRequest(task_id="x")), "it began with `cancel`"),
        (pb.ConverseRequest(watch=pb.WatchTaskRequest()), "task_id: is missing"),
        (pb.ConverseRequest(execute=pb.ExecuteTaskRequest(cancel_with_call=True)), "task_description"),
    ],
)
async def test_a_conversation_begins_with_a_task(there: Grpc, first: Any, words: str) -> None:
    call = there.converse()
    if first is not None:
        await call.write(first)
    await call.done_writing()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()

    assert told(refused.value).code == "INVALID_ARGUMENT"
    assert words in told(refused.value).message


async def test_a_conversation_that_nobody_begins_does_not_stay_open(tmp_path: Path) -> None:
    settings = Settings.model_validate({"server": {"request_timeout_secs": 0.1}})
    async with serving(tmp_path, settings=settings) as there:
        call = there.converse()
        found = await there.refused(read_on(call))

    assert (found.code, found.reason) == ("DEADLINE_EXCEEDED", "TIMED_OUT")
    assert "nothing was said for 0.1 s" in found.message


async def test_a_message_that_cannot_be_read_is_refused_and_the_conversation_goes_on(there: Grpc) -> None:
    call = there.channel.stream_stream(f"/{SERVICE}/Converse", None, pb.ConverseResponse.FromString)()
    await call.write(pb.ConverseRequest(execute=execute(HOLDS)).SerializeToString())
    await asyncio.wait_for(there.there.source.entered.wait(), SECS)
    await call.write(b"\xff\xff\xff")
    heard: list[Any] = []
    async with asyncio.timeout(SECS):
        while not any(one.HasField("refused") for one in heard):
            heard.append(await call.read())
    there.there.source.let_go.set()
    async with asyncio.timeout(SECS):
        while (one := await call.read()) is not grpc.aio.EOF:
            heard.append(one)

    assert heard[-1].event.type == "task_completed"


async def test_what_is_said_while_the_task_ends_is_answered(there: Grpc) -> None:
    talk = Talk(there)
    await talk.say(execute=execute())
    while "task_completed" not in talk.events:
        await talk.hear("event")
    for name in ("a", "b"):
        await talk.say(id=name, hint=pb.GiveHintRequest(text="late"))
        refused = await talk.hear("refused")
        assert (refused.id, refused.reason) == (name, "TASK_ENDED")
    await talk.close()
    await talk.rest()


@pytest.mark.parametrize("name", ["mine", "acme:mine"])
async def test_a_tenant_names_its_task_in_a_conversation_as_it_likes(tmp_path: Path, name: str) -> None:
    async def of_acme(credentials: Credentials) -> Caller:
        return Caller("key:boss", tenant="acme")

    async with serving(tmp_path, authenticate=of_acme) as there:
        call = there.converse()
        await call.write(pb.ConverseRequest(execute=pb.ExecuteTaskRequest(task=task(ASKED, task_id="mine"))))
        async with asyncio.timeout(SECS):
            while not (one := await call.read()).HasField("waiting"):
                pass
        yes = {"approval_id": one.waiting.waiting_for.id, "hash": one.waiting.hash, "approved": True}
        for other in ("other", "acme:other", "beta:mine"):
            await call.write(pb.ConverseRequest(approve=pb.AnswerApprovalRequest(task_id=other, **yes)))
        await call.write(pb.ConverseRequest(approve=pb.AnswerApprovalRequest(task_id=name, **yes)))
        heard: list[Any] = []
        async with asyncio.timeout(SECS):
            while (one := await call.read()) is not grpc.aio.EOF:
                heard.append(one)

    assert ["about task" in one.refused.message for one in heard if one.HasField("refused")] == [True] * 3
    assert heard[-1].event.type == "task_completed"


def test_what_is_sent_of_a_conversation_is_what_is_sent_of_a_watch() -> None:
    for size in (0, 1, 127, 128, 16_383, 16_384, 70_000):
        event = pb.Event(seq=5, type="x", data_json="y" * size)
        found = pb.ConverseResponse.FromString(framed(event.SerializeToString()))
        assert found == pb.ConverseResponse(event=event)


def test_fields_of_a_request_are_what_it_sets() -> None:
    assert set(fields(task())) == {"task_description", "options"}


async def test_a_steps_question_is_told_with_its_schema_and_answered_on_the_same_stream(there: Grpc) -> None:
    asks = plan(step("a", "ask_user", parameters={"question": "How many?", "kind": "number"}))
    talk = Talk(there)
    await talk.say(execute=execute(asks))
    opened = await talk.hear("opened")
    one = await talk.hear("waiting")
    assert (one.waiting_for.kind, one.waiting_for.text) == ("question", "How many?")
    assert json.loads(one.waiting_for.answer_schema_json) == {"type": "number"}
    await talk.say(id="1", answer=pb.AnswerQuestionRequest(question_id="a", text="many"))
    refused = await talk.hear("refused")
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "right is a number, as 12.5" in refused.message
    await talk.say(id="2", answer=pb.AnswerQuestionRequest(question_id=one.waiting_for.id, output_json="2.5"))
    assert (await talk.hear("done")).id == "2"
    await talk.rest()
    result = await there.call("GetResult", task_id=opened.task_id)
    assert json.loads(result.final_output_json) == 2.5


async def test_what_nobody_could_be_asked_stands_in_the_result(there: Grpc) -> None:
    asks = plan(step("a", "ask_user", parameters={"question": "How many?", "kind": "number"}))
    wanted = task(asks)
    wanted.options.interactive = False
    task_id = (await there.call("SubmitTask", **fields(wanted))).task_id
    result = await there.call("GetResult", task_id=task_id, wait_secs=SECS)
    assert not result.is_success
    assert [(one.text, one.step_id) for one in result.ask] == [("How many?", "a")]
