"""What every `ToolSource` keeps to, whatever its tools are made of.

A source takes part by a kit (`tool_kit`) with these tools, of which `name` says the id.

`echo(value)`: the value. `add(a, b)`: their sum, with an output schema. `fail(text)`: raises `ValueError(text)`.
`wait()`: sets `kit.started`, waits until it is cancelled, then sets `kit.reached`.
`progress()`: reports ("half", 1, 2), then ("done", 2, 2), and gives {"ok": true}. `meet(n)`: returns when n calls have come.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tool_kit import Kit

from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall

pytestmark = pytest.mark.anyio

KITS = [
    kit
    for path in sorted(Path(__file__).parent.glob("kit_*.py"))
    for kit in importlib.import_module(path.stem).KITS
]


@pytest.fixture(params=KITS)
async def kit(request: pytest.FixtureRequest) -> AsyncIterator[Kit]:
    async with request.param() as made:
        for spec in await made.source.tools():
            if spec.id.endswith(".echo") and "value" in spec.parameters["properties"]:
                made.names["echo"] = spec.id
        yield made
        await made.source.aclose()


async def test_the_list_is_stable_and_its_schemas_are_valid(kit: Kit) -> None:
    first, second = await kit.source.tools(), await kit.source.tools()
    assert list(first) == list(second)
    ids = [spec.id for spec in first]
    assert len(set(ids)) == len(ids)
    assert {kit.name(name) for name in ("echo", "add", "fail", "wait", "progress", "meet")} <= set(ids)
    for spec in first:
        assert spec.id
        assert spec.source
        assert spec.parameters["type"] == "object"
        Draft202012Validator.check_schema(spec.parameters)
        json.dumps(spec.model_dump(mode="json"))


async def test_a_result_is_plain_json_and_as_the_output_schema_says(kit: Kit) -> None:
    output = await kit.call("add", a=2, b=3)
    assert output == {"sum": 5}
    (spec,) = [spec for spec in await kit.source.tools() if spec.id == kit.name("add")]
    assert spec.output_schema is not None
    assert Draft202012Validator(spec.output_schema).is_valid(output)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param([1, 1.5, True, {"a": []}, ""], id="every kind"),
        pytest.param(2**63 - 1, id="a large number"),
        pytest.param({"": {"${x}": "{{y}}"}}, id="what looks like a reference"),
        pytest.param("näïve 北京 🏳️‍🌈 \u0000 \r\n \u2028 e\u0301", id="text, byte for byte"),
        pytest.param("x" * 1_000_000, id="a long text"),
    ],
)
async def test_a_value_comes_back_as_it_went_in(kit: Kit, value: Any) -> None:
    found = await kit.call("echo", value=value)
    assert found == value
    assert json.dumps(found, ensure_ascii=False) == json.dumps(value, ensure_ascii=False)


async def test_parameters_are_left_as_they_were(kit: Kit) -> None:
    value = {"items": [1]}
    found = await kit.call("echo", value=value)
    found["items"].append(2)
    assert value == {"items": [1]}


async def test_an_error_of_the_tool_keeps_its_words(kit: Kit) -> None:
    with pytest.raises(Exception, match="no such thing: 北京 🚫") as caught:
        await kit.call("fail", text="no such thing: 北京 🚫")
    assert isinstance(caught.value, ValueError | ToolCallError)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, id="missing"),
        pytest.param({"a": 1, "b": "many"}, id="of another type"),
        pytest.param({"a": 1, "b": 2, "c": 3}, id="one too many"),
    ],
)
async def test_wrong_parameters_are_known_not_to_have_had_an_effect(
    kit: Kit, parameters: dict[str, Any]
) -> None:
    with pytest.raises(ToolCallError) as caught:
        await kit.call("add", **parameters)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


async def test_an_unknown_tool_is_known_not_to_have_been_called(kit: Kit) -> None:
    with pytest.raises(ToolCallError, match="nowhere") as caught:
        await kit.source.call(ToolCall("nowhere", {}, "key"))
    assert (caught.value.kind, caught.value.happened) == ("unknown_tool", "no")
    (spec, *_) = await kit.source.tools()
    with pytest.raises(ToolCallError, match=rf"the nearest are: .*\b{spec.id}\b"):
        await kit.source.call(ToolCall(f"{spec.id}x", {}, "key"))


async def test_a_cancellation_returns_at_once_and_reaches_the_tool(kit: Kit) -> None:
    task = asyncio.create_task(kit.call("wait"))
    assert await kit.saw_started()
    task.cancel()
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
        assert turns <= kit.turns, "the caller had to wait for the tool"
    assert task.cancelled()
    assert await kit.saw_cancelled()


async def test_a_deadline_around_the_call_is_kept(kit: Kit) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kit.call("wait")
    if kit.started.is_set():
        assert await kit.saw_cancelled()


async def test_progress_comes_in_order_in_the_loop_and_before_the_result(kit: Kit) -> None:
    seen: list[tuple[Progress, int]] = []
    output = await kit.call("progress", lambda item: seen.append((item, threading.get_ident())))
    here = threading.get_ident()
    assert output == {"ok": True}
    told = [(Progress("half", 1, 2), here), (Progress("done", 2, 2), here)]
    assert seen == (told if kit.reports else [])
    assert await kit.call("progress") == {"ok": True}


async def test_calls_run_side_by_side_and_are_not_mixed_up(kit: Kit) -> None:
    assert await asyncio.gather(*(kit.call("meet", n=20) for _ in range(20))) == [True] * 20
    found = await asyncio.gather(*(kit.call("add", a=n, b=n) for n in range(50)))
    assert found == [{"sum": 2 * n} for n in range(50)]


async def test_one_failed_call_leaves_the_others_alone(kit: Kit) -> None:
    calls = [kit.call("fail", text="x"), kit.call("add", a=1, b=1), kit.call("fail", text="y")]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, Exception) for each in found] == [True, False, True]


async def test_closing_twice_is_closing_once(kit: Kit) -> None:
    await kit.call("add", a=1, b=1)
    await kit.source.aclose()
    await kit.source.aclose()
