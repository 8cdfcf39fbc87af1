"""Whatever is sent over gRPC is answered, is the caller's fault where it is wrong, and leaves the service as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_health")
pytest.importorskip("grpc_reflection")

import grpc
import grpc.aio
from access_world import PLAIN, SECS
from grpc_world import METHODS, Grpc, grpc_class, serving, task
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import verdict
from test_grpc_calls import fields

from replan.server.grpc.messages import SERVICE
from replan.testing import ScriptedModel
from thorough import examples

NAMES = sorted(set(METHODS) - {"Converse"})
FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED", "UNAVAILABLE"}
"""Of the service, not of the caller."""
JSON = st.sampled_from(
    ["{}", "[]", "null", "7", '{"a": 1}', '"x"', "{", "NaN", '{"steps": []}', "1e999", "[" * 500, "\x00"]
)
TEXT = st.one_of(
    st.sampled_from(["known", "a", "", "look", "running", "../..", "\x00", "ü" * 300]), st.text(max_size=20)
)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, 2**63 - 1, -(2**63)]))
REALS = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, 1e308]))


class Ran:
    """A service in a loop of its own, for one example after the other."""

    def __init__(self, folder: Path) -> None:
        self.runner = asyncio.Runner()
        self._serving = serving(
            folder, model=ScriptedModel({"execution_plan": PLAIN, "evaluation": verdict()})
        )
        self.there: Grpc = self.runner.run(self._serving.__aenter__())
        known = {**fields(task()), "task_id": "known"}
        self.runner.run(self._done(known))

    async def _done(self, known: dict[str, Any]) -> None:
        await self.there.call("SubmitTask", **known)
        await self.there.call("GetResult", task_id="known", wait_secs=SECS)

    def close(self) -> None:
        self.runner.run(self._serving.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    made = Ran(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


def value_of(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return message(field.message_type, depth - 1) if depth else st.nothing()
    if field.name.endswith("_json"):
        return st.one_of(JSON, TEXT)
    if field.enum_type is not None:
        return st.sampled_from([0, 1, 9, -1])
    return {"int": NUMBERS, "str": TEXT, "float": REALS, "bool": st.booleans(), "bytes": st.binary()}[
        type(field.default_value).__name__ if not field.is_repeated else "str"
    ]


def message(kind: Any, depth: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Fields of a message, some of them set to anything that the protocol has a form for."""
    some = {}
    for field in kind.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            some[field.name] = st.dictionaries(TEXT, TEXT, max_size=2)
        elif field.is_repeated:
            some[field.name] = st.lists(value_of(field, depth), max_size=2)
        elif field.message_type is None or depth:
            some[field.name] = value_of(field, depth)
    return st.fixed_dictionaries({}, optional=some)


async def answered(call: Any) -> str:
    """The code that the call ends with, within the time of a test."""
    try:
        async with asyncio.timeout(SECS):
            if hasattr(call, "__aiter__"):
                async for _ in call:
                    pass
            else:
                await call
    except grpc.aio.AioRpcError as error:
        code, words = error.code().name, error.details() or ""
    else:
        return "OK"
    assert not any(word in words for word in ("Traceback", "replan.", "<class", "Exception")), words
    return "OK" if words == "Internal error from Core" else code  # the client's own, which was still sending


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=60))
@settings(max_examples=examples(24))
def test_any_bytes_are_answered(ran: Ran, name: str, data: bytes) -> None:
    async def sent() -> str:
        return await answered(ran.there.raw(name, data))

    assert ran.runner.run(sent()) not in FAULTS


@given(data=st.data())
@settings(max_examples=examples(1200))
def test_any_message_is_answered(ran: Ran, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    sends = grpc_class(METHODS[name].input_type)
    made = sends(**data.draw(message(METHODS[name].input_type)))
    if name == "GetResult":
        made.wait_secs = min(made.wait_secs, 0.0)  # whatever else: it is waited for

    async def sent() -> str:
        return await answered(ran.there.raw(name, made.SerializeToString()))

    assert ran.runner.run(sent()) not in FAULTS, made


@given(said=st.lists(st.one_of(st.binary(max_size=40), message(METHODS["Converse"].input_type)), max_size=6))
@settings(max_examples=examples(200))
def test_any_conversation_is_answered(ran: Ran, said: list[Any]) -> None:
    sends = grpc_class(METHODS["Converse"].input_type)

    async def sent() -> AsyncIterator[bytes]:
        for one in said:
            yield one if isinstance(one, bytes) else sends(**one).SerializeToString()

    async def talked() -> str:
        return await answered(ran.there.channel.stream_stream(f"/{SERVICE}/Converse")(sent()))

    assert ran.runner.run(talked()) not in FAULTS


def test_after_all_that_the_service_is_as_it_was(ran: Ran) -> None:
    async def looked() -> tuple[str, int]:
        found = await ran.there.call("GetTask", task_id="known")
        return found.status, ran.there.here.hub.watchers

    assert ran.runner.run(looked()) == ("succeeded", 0)
