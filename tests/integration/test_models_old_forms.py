"""Answers in the forms of older or careless endpoints: one call that is no list of calls, a mark before the text, a stream that nobody closes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from replan.llm.completions import chunk_in_form, completion
from replan.llm.wire import EventStream

pytestmark = pytest.mark.anyio
MARK = b"\xef\xbb\xbf"
ANSWER = json.dumps({"steps": []})


def message(**said: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", **said}, "finish_reason": "function_call"}]
    }


@pytest.mark.parametrize("arguments", [ANSWER, {"steps": []}], ids=["a text", "an object"])
def test_the_one_call_of_an_older_form_is_listed(arguments: Any) -> None:
    said = message(content=None, function_call={"name": "execution_plan", "arguments": arguments})
    status, body = completion(json.dumps(said).encode())
    choice = json.loads(body)["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert status == 200
    assert (call["type"], choice["finish_reason"]) == ("function", "tool_calls")
    assert call["id"]
    assert call["function"] == {"name": "execution_plan", "arguments": ANSWER}
    assert "function_call" not in choice["message"]


def test_beside_a_list_of_calls_it_is_the_same_once_more() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = message(tool_calls=[call], function_call={"name": "f", "arguments": "{}"})
    _, body = completion(json.dumps(said).encode())
    assert json.loads(body)["choices"][0]["message"]["tool_calls"] == [call]


def test_in_a_stream_its_pieces_are_those_of_one_call() -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ": 1}"}]
    found = []
    for piece in pieces:
        event: Any = {"choices": [{"index": 0, "delta": {"function_call": piece}}]}
        assert chunk_in_form(event) == (True, True)
        found += event["choices"][0]["delta"]["tool_calls"]
    assert {one["index"] for one in found} == {0}
    assert [("id" in one, one["function"].get("name")) for one in found] == [
        (True, "f"),
        (False, None),
        (False, None),
    ]
    assert "".join(one["function"]["arguments"] for one in found) == '{"a": 1}'


def test_a_mark_before_an_answer_is_left_out() -> None:
    said = json.dumps({**message(content="x"), "model": "m"}).encode()
    status, body = completion(MARK + said)
    assert status == 200
    assert not body.startswith(MARK)
    assert json.loads(body)["choices"][0]["message"]["content"] == "x"


class _Open:
    """A body that goes on for ever once all of it has come."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self._sent
        await asyncio.Event().wait()


def stream(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in events)


async def heard(body: _Open) -> list[Any]:
    async with asyncio.timeout(20):
        told = [event async for event in EventStream(body)]  # type: ignore[arg-type]
    return [json.loads(one.decode().removeprefix("data: ")) for one in told]


WORD = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USED = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}


async def test_a_stream_that_is_never_closed_ends_with_its_answer_and_what_was_used() -> None:
    told = await heard(_Open(MARK + stream(WORD, END, USED)))
    assert told[0]["choices"] == WORD["choices"], "the mark hides nothing"
    assert told[1]["choices"][0]["finish_reason"] == "stop"
    assert told[-1]["usage"]["completion_tokens"] == 2


async def test_one_whose_answer_has_no_end_yet_is_waited_for() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            [event async for event in EventStream(_Open(stream(WORD)))]  # type: ignore[arg-type]
