"""Nobody takes the places of other calls over gRPC: neither who has no key, nor who begins calls and sends nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_world import Grpc, serving, task, told
from test_grpc_calls import fields

from replan.config import Settings
from replan.run.access.callers import LOCAL, Caller
from replan.server.auth.credentials import Credentials
from replan.server.auth.refused import Refused
from replan.server.grpc.messages import SERVICE
from replan.server.grpc.standing import MOST_STREAMS

pytestmark = pytest.mark.anyio
QUICK = Settings.model_validate({"server": {"request_timeout_secs": 0.2}})


async def knows_nobody(credentials: Credentials) -> Caller:
    raise Refused("nobody")


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Grpc]:
    async with serving(tmp_path, settings=QUICK) as made:
        yield made


async def ends_with(call: grpc.aio.StreamStreamCall) -> grpc.aio.AioRpcError:  # type: ignore[type-arg]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(10):
            await call.read()
    return caught.value


@pytest.mark.parametrize(
    "name", ["GetTask", "SubmitTask", "PreviewTask", "WatchTask", "ExecuteTask", "GetArtifact"]
)
async def test_a_call_whose_message_does_not_come_is_ended(there: Grpc, name: str) -> None:
    error = await ends_with(there.channel.stream_stream(f"/{SERVICE}/{name}")())
    assert (told(error).code, told(error).reason) == ("DEADLINE_EXCEEDED", "TIMED_OUT")
    assert "nothing was said for 0.2 s" in told(error).message


async def test_a_call_without_any_message_is_told_so(there: Grpc) -> None:
    call = there.channel.stream_stream(f"/{SERVICE}/GetTask")()
    await call.done_writing()
    assert told(await ends_with(call)).code == "INVALID_ARGUMENT"


async def test_nothing_is_waited_for_of_whoever_nobody_knows(tmp_path: Path) -> None:
    async with serving(tmp_path, authenticate=knows_nobody) as there:
        error = await ends_with(there.channel.stream_stream(f"/{SERVICE}/GetTask")())
        assert told(error).code == "UNAUTHENTICATED"


async def knows_one(credentials: Credentials) -> Caller:
    if credentials.api_key != "good":
        raise Refused("nobody")
    return LOCAL


async def test_those_who_have_no_key_take_no_place_of_streams_and_are_not_waited_for(tmp_path: Path) -> None:
    settings = Settings.model_validate({"server": {"max_connections": 2}})
    async with serving(tmp_path, settings=settings, authenticate=knows_one) as there:
        good = (("x-api-key", "good"),)
        task_id = (await there.call("SubmitTask", metadata=good, **fields(task()))).task_id
        begun = [there.channel.stream_stream(f"/{SERVICE}/Converse")() for _ in range(100)]
        ends = [asyncio.ensure_future(ends_with(one)) for one in begun]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        events = [one async for one in there.call("WatchTask", metadata=good, task_id=task_id)]
        told_to_all = {told(await end).code for end in ends}
    assert events
    assert told_to_all == {"UNAUTHENTICATED"}


async def test_calls_that_have_not_come_are_bounded_by_key(tmp_path: Path) -> None:
    settings = Settings.model_validate({"server": {"max_connections": 20}})  # of them 10 for a key
    async with serving(tmp_path, settings=settings, authenticate=knows_one) as there:
        good = (("x-api-key", "good"),)
        begun = [there.channel.stream_stream(f"/{SERVICE}/GetTask")(metadata=good) for _ in range(15)]
        ends = [asyncio.ensure_future(ends_with(one)) for one in begun]
        refused: set[asyncio.Future[grpc.aio.AioRpcError]] = set()
        async with asyncio.timeout(10):
            while len(refused) < 5:
                open_ = [end for end in ends if not end.done()]
                refused |= (await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED))[0]
        assert {told(one.result()).reason for one in refused} == {"TOO_MANY"}
        assert "have not come whole" in told(next(iter(refused)).result()).message
        for one in begun:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        async with asyncio.timeout(10):
            while True:  # the places come back
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await there.call("ListTasks", metadata=good)
                    break


async def test_those_who_need_no_key_have_so_many_streams_and_take_no_place_of_others(there: Grpc) -> None:
    health = health_pb2_grpc.HealthStub(there.channel)  # type: ignore[no-untyped-call]
    asked = health_pb2.HealthCheckRequest(service=SERVICE)
    watches = [health.Watch(asked) for _ in range(MOST_STREAMS)]
    for one in watches:
        assert (await one.read()).status == health_pb2.HealthCheckResponse.SERVING
    assert (await ends_with(health.Watch(asked))).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    reflection = reflection_pb2_grpc.ServerReflectionStub(there.channel)  # type: ignore[no-untyped-call]
    assert (await ends_with(reflection.ServerReflectionInfo())).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await health.Check(asked)).status == health_pb2.HealthCheckResponse.SERVING
    assert not (await there.call("ListTasks")).items

    watches[0].cancel()
    async with asyncio.timeout(10):
        while True:
            again = reflection.ServerReflectionInfo()
            try:
                await again.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                found = await again.read()
                break
            except grpc.aio.AioRpcError:  # it is not seen yet that the other is gone
                continue
    assert SERVICE in {one.name for one in found.list_services_response.service}
    for one in (*watches, again):
        one.cancel()


async def test_a_question_for_health_that_does_not_come_is_ended(there: Grpc) -> None:
    error = await ends_with(there.channel.stream_stream("/grpc.health.v1.Health/Check")())
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
