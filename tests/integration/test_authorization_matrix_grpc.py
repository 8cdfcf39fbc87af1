"""Every call over gRPC, by whoever may not make it. The calls are those of the protocol's descriptor: one that has no row here fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("grpc_health")
pytest.importorskip("grpc_reflection")

import grpc
import grpc.aio
from access_world import SECS
from authorization_world import (
    ACME,
    BAD,
    NOBODYS,
    OTHERS,
    VICTIM,
    keys_of,
    standing,
    waiting_task,
    without,
)
from grpc_world import METHODS, Grpc, grpc_class, serving, task, told

from replan.config import Settings
from replan.config.sections import Server
from replan.core.types import JsonObject
from replan.run.access.callers import Caller, Scope
from replan.server.auth.authenticator import KnownCallers, known_callers
from replan.server.auth.credentials import Credentials
from replan.server.grpc.messages import SERVICE, pb

pytestmark = pytest.mark.anyio


class Row(NamedTuple):
    """What a call needs, and the fields of its message beside the task's id."""

    scope: Scope
    fields: JsonObject = {}
    of_a_task: bool = True


OF_ALL = False
ROWS: dict[str, Row] = {
    "ExecuteTask": Row("run", {"task": task()}, OF_ALL),
    "SubmitTask": Row("run", {"task_description": "do it", "options": task().options}, OF_ALL),
    "PreviewTask": Row("run", {"task_description": "do it", "options": task().options}, OF_ALL),
    "ForkTask": Row("run", {"hint": "other"}),
    "WatchTask": Row("read"),
    "Converse": Row("read"),
    "GetTask": Row("read"),
    "ListTasks": Row("read", {}, OF_ALL),
    "GetResult": Row("read"),
    "ListEvents": Row("read"),
    "ListPlans": Row("read"),
    "GetPlan": Row("read", {"version": 1}),
    "GetStep": Row("read", {"step_id": "a"}),
    "GetOutput": Row("read", {"step_id": "a"}),
    "GetArtifact": Row("read", {"artifact_id": "art_1"}),
    "ListWaiting": Row("read"),
    "GetApproval": Row("read", {"approval_id": "appr_1"}),
    "CancelTask": Row("run"),
    "PauseTask": Row("run"),
    "ResumeTask": Row("run"),
    "GiveHint": Row("run", {"text": "quick"}),
    "RetryStep": Row("run", {"step_id": "a"}),
    "JudgeTask": Row("run"),
    "SkipStep": Row("run", {"step_id": "a"}),
    "SettleStep": Row("approve", {"step_id": "a", "happened": True}),
    "AnswerApproval": Row("approve", {"approval_id": "appr_1", "approved": False}),
    "AnswerQuestion": Row("approve", {"question_id": "q_1", "text": "yes"}),
    "SendSignal": Row("run", {"token": "cb_1"}),
    "ReviewPlan": Row("approve", {"version": 1, "approved": False}),
    "ListTools": Row("read", {}, OF_ALL),
    "GetToolStats": Row("read", {"tool_id": "look"}, OF_ALL),
    "ListWorkflows": Row("read", {}, OF_ALL),
    "ListScenes": Row("read", {}, OF_ALL),
}


class Front(NamedTuple):
    served: Grpc
    keys: dict[str, str]

    def metadata(self, key: str | None) -> Any:
        return () if key is None else (("authorization", f"Bearer {self.keys[key]}"),)

    async def make(self, call: str, key: str | None, task_id: str = VICTIM) -> str:
        """The code that the call ends with, and what is told: `CODE: words`. `OK` as soon as there is an answer."""
        try:
            async with asyncio.timeout(SECS):
                await self._answer(call, key, task_id)
        except grpc.aio.AioRpcError as error:
            refused = told(error)
            return f"{refused.code} {refused.reason}: {refused.message}"
        return "OK"

    async def _answer(self, call: str, key: str | None, task_id: str) -> None:
        row = ROWS[call]
        if call == "Converse":
            await first(self.conversation(key, task_id))
            return
        fields = {**row.fields, "task_id": task_id} if row.of_a_task else row.fields
        calling = self.served.call(call, metadata=self.metadata(key), **fields)
        await (first(calling) if METHODS[call].server_streaming else calling)

    def conversation(self, key: str | None, task_id: str) -> Any:
        async def said() -> AsyncIterator[Any]:
            yield pb.ConverseRequest(watch=pb.WatchTaskRequest(task_id=task_id))

        return self.served.channel.stream_stream(
            f"/{SERVICE}/Converse", pb.ConverseRequest.SerializeToString, pb.ConverseResponse.FromString
        )(said(), metadata=self.metadata(key))


async def first(stream: Any) -> Any:
    """The first answer; the stream is left then."""
    async for one in stream:
        stream.cancel()
        return one
    return None


class Late:
    """Known once there is a store that has keys."""

    known: KnownCallers

    async def __call__(self, credentials: Credentials) -> Caller:
        return await self.known(credentials)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    late = Late()
    settings = Settings(server=Server(auth="keys", failed_signins=""))
    async with serving(tmp_path, authenticate=late, settings=settings) as served:
        parts = served.there.replan.service.parts
        known = known_callers(settings, parts.store, parts.clock)
        assert known is not None
        late.known = known
        keys = await keys_of(served.there)
        await waiting_task(served.there, VICTIM)
        yield Front(served, keys)
        await known.aclose()


def test_every_call_of_the_descriptor_has_a_row() -> None:
    assert METHODS.keys() == ROWS.keys()
    for name, row in ROWS.items():
        fields = {field.name for field in grpc_class(METHODS[name].input_type).DESCRIPTOR.fields}
        assert (
            row.of_a_task == ("task_id" in fields and name not in ("SubmitTask", "PreviewTask"))
            or name == "Converse"
        )


async def test_without_a_key_that_is_good_no_call_says_anything_and_all_say_the_same(front: Front) -> None:
    before = await standing(front.served.there)
    said = {
        await front.make(call, key, task_id) for call in ROWS for key in BAD for task_id in (VICTIM, NOBODYS)
    }
    assert len(said) == 1
    assert said.pop().startswith("UNAUTHENTICATED NOT_SIGNED_IN: ")
    assert await standing(front.served.there) == before


async def test_without_a_key_nobody_is_told_what_of_the_message_does_not_fit(front: Front) -> None:
    for name in ROWS.keys() - {"Converse"}:
        kind = "unary_stream" if METHODS[name].server_streaming else "unary_unary"
        calling = getattr(front.served.channel, kind)(f"/{SERVICE}/{name}")(b"\xff\xff\xff")
        assert (await front.served.refused(calling)).code == "UNAUTHENTICATED", name


async def test_without_the_scope_each_call_is_refused_before_it_is_looked_at(front: Front) -> None:
    before = await standing(front.served.there)
    for call, row in ROWS.items():
        for key in without(row.scope):
            said = {await front.make(call, key, task_id) for task_id in (VICTIM, NOBODYS)}
            assert len(said) == 1, (call, key, said)
            assert said.pop().startswith(
                f"PERMISSION_DENIED NOT_ALLOWED: this needs the scope {row.scope!r}"
            ), (call, key)
    assert await standing(front.served.there) == before


async def test_a_task_of_another_tenant_is_not_there_word_for_word(front: Front) -> None:
    before = await standing(front.served.there)
    for call, row in ROWS.items():
        for key in OTHERS if row.of_a_task else ():
            theirs, none = [await front.make(call, key, task_id) for task_id in (VICTIM, NOBODYS)]
            assert theirs.startswith("NOT_FOUND TASK_NOT_FOUND: "), (call, key, theirs)
            assert theirs.replace(VICTIM, "?") == none.replace(NOBODYS, "?")
    assert await standing(front.served.there) == before


async def test_lists_have_nothing_of_another_tenant(front: Front) -> None:
    for call, fields in (("ListTasks", {}), ("ListTasks", {"limit": 500}), ("ListWaiting", {})):
        for key in OTHERS:
            assert VICTIM not in str(await front.served.call(call, metadata=front.metadata(key), **fields))
        for key in ("only read", "keeper"):
            assert VICTIM in str(await front.served.call(call, metadata=front.metadata(key), **fields))


async def test_only_whoever_keeps_the_service_may_ask_for_another_tenant(front: Front) -> None:
    for key in OTHERS:
        calling = front.served.call("ListTasks", metadata=front.metadata(key), tenant=ACME)
        assert (await front.served.refused(calling)).code == "PERMISSION_DENIED"
    assert VICTIM in str(await front.served.call("ListTasks", metadata=front.metadata("keeper"), tenant=ACME))


async def test_whoever_may_make_a_call_gets_to_it(front: Front) -> None:
    for number, (call, row) in enumerate(ROWS.items()):
        for key in (f"only {row.scope}", "admin", "keeper"):
            own = f"acme:own-{number}-{key.replace(' ', '-')}"
            if row.of_a_task:
                await waiting_task(front.served.there, own)
            said = await front.make(call, key, own)
            assert said.split()[0] not in ("UNAUTHENTICATED", "PERMISSION_DENIED", "INTERNAL", "UNKNOWN"), (
                call,
                key,
                said,
            )
            assert "TASK_NOT_FOUND" not in said, (call, key, said)


async def test_streams_end_when_their_key_is_revoked(front: Front) -> None:
    there = front.served.there
    store = there.replan.service.parts.store.keys()  # type: ignore[attr-defined]
    watching = front.served.call("WatchTask", metadata=front.metadata("only read"), task_id=VICTIM)
    stays = front.served.call("WatchTask", metadata=front.metadata("not run"), task_id=VICTIM)
    talk = front.conversation("only read", VICTIM)
    heard = [aiter(one) for one in (watching, stays, talk)]
    for one in heard:
        await anext(one)
    await store.revoke_key(front.keys["only read"][4:20], 1.0)
    async with asyncio.timeout(SECS):
        for gone in (watching, talk):
            assert (await front.served.refused(gone)).code == "UNAUTHENTICATED"
    assert not stays.done()
    stays.cancel()
