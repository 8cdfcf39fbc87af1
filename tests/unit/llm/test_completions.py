"""Answers whose surroundings are not as the protocol has them: none is lost by that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.llm.coming import Coming
from replan.llm.completions import HEAD, chunk_in_form, completion, ends
from replan.llm.faults import EndpointError
from replan.llm.wire import EventStream

pytest.importorskip("openai")
from openai.types.chat import ChatCompletion, ChatCompletionChunk

pytestmark = pytest.mark.anyio

POLICY = {"message": "content policy", "code": 400}
NOBODY = {"code": 502, "message": "Provider returned error"}


def answer(**choice: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop", **choice}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"choices": [answer()], "error": POLICY}, 400, "content policy"),
        ({"choices": [answer()], "error": "upstream aborted"}, 502, "upstream aborted"),
        ({"choices": [answer()], "errors": [POLICY]}, 400, "content policy"),
        ({"choices": [answer(error=NOBODY, finish_reason="error")]}, 502, "Provider returned error"),
        ({"choices": [answer(message={"content": "{}", "error": {"message": "gone"}})]}, 502, "gone"),
        ({"choices": [answer(finish_reason="abort")]}, 502, "abort"),
        ({"choices": [answer()], "status": "failed"}, 502, "failed"),
        ({"choices": [answer()], "status": 500, "message": "internal"}, 500, "internal"),
    ],
    ids=str,
)
def test_an_answer_that_its_endpoint_calls_failed_is_none_whatever_it_says_beside(
    body: Any, status: int, says: str
) -> None:
    found, sent = completion(json.dumps(body).encode())
    assert found == status
    assert says in json.loads(sent)["error"]["message"]


@pytest.mark.parametrize(
    "beside",
    [
        *({"error": None}, {"error": {}}, {"error": ""}, {"error": {"code": None, "message": ""}}, {"errors": []}),
        *({"status": "completed"}, {"status": 200}, {"error": False}),
    ],
    ids=str,
)  # fmt: skip
def test_what_tells_of_no_error_takes_no_answer_away(beside: Any) -> None:
    assert completion(json.dumps({"choices": [answer()], **beside}).encode())[0] == 200


class Streamed:
    """A response that streams these lines."""

    def __init__(self, *events: str) -> None:
        self._events = events
        self.request = httpx2.Request("POST", "http://model.test/v1/chat/completions")

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event.encode()


FIRST = 'data: {"choices": [{"index": 0, "delta": {"content": "{}"}, "finish_reason": null}]}\n\n'


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (f"data: {json.dumps({'error': POLICY})}\n\n", 400),
        (f"data: {json.dumps({'choices': [{'index': 0, 'delta': {}}], 'error': POLICY})}\n\n", 400),
        (f"data: {json.dumps({'choices': [{'index': 0, 'delta': {}, 'error': NOBODY}]})}\n\n", 502),
        (f"event: error\ndata: {json.dumps(POLICY)}\n\n", 400),
        (f"event: error\ndata: {json.dumps({'type': 'error', 'error': POLICY})}\n\n", 400),
        ('data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}\n\n', 502),
    ],
    ids=str,
)
async def test_an_error_in_a_stream_is_what_the_same_would_be_with_a_status_of_its_own(
    last: str, status: int
) -> None:
    with pytest.raises(EndpointError) as raised:
        _ = [one async for one in EventStream(Streamed(FIRST, last, "data: [DONE]\n\n"))]  # type: ignore[arg-type]
    assert (raised.value.status, raised.value.transient) == (status, status == 502)
    assert "http://model.test" in str(raised.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
heads = st.dictionaries(st.sampled_from([*HEAD, "system_fingerprint", "service_tier", "usage"]), values)
of_choices = st.dictionaries(st.sampled_from(["finish_reason", "logprobs"]), values)
of_messages = st.dictionaries(
    st.sampled_from(["role", "refusal", "audio", "annotations", "function_call", "reasoning_content"]), values
).filter(lambda told: not isinstance(told.get("function_call"), dict) or not told["function_call"])


@given(head=heads, of_choice=of_choices, of_message=of_messages)
def test_whatever_stands_around_a_whole_answer_it_is_read(
    head: dict[str, Any], of_choice: dict[str, Any], of_message: dict[str, Any]
) -> None:
    of_message.pop("function_call", None)
    choice = {"index": 0, "finish_reason": "stop", **of_choice, "message": {"content": "{}", **of_message}}
    status, body = completion(json.dumps({**head, "choices": [choice]}).encode())
    told = json.loads(body)
    told["choices"][0]["finish_reason"] = (
        told["choices"][0]["finish_reason"] or "stop"
    )  # the library mends this
    assert status == 200
    assert ChatCompletion.model_validate(told).choices[0].message.content == "{}"


@given(head=heads, of_choice=of_choices, of_message=of_messages)
def test_whatever_stands_around_a_piece_of_a_stream_it_is_read(
    head: dict[str, Any], of_choice: dict[str, Any], of_message: dict[str, Any]
) -> None:
    of_message.pop("function_call", None)
    choice = {"index": 0, "finish_reason": None, **of_choice, "delta": {"content": "{}", **of_message}}
    event = {**head, "choices": [choice]}
    ending = ends(event)
    _, told = chunk_in_form(event)
    assert told
    assert ends(event) == ending
    event["choices"][0]["finish_reason"] = event["choices"][0]["finish_reason"] or None
    assert isinstance(event.pop("service_tier", ""), str | None)
    assert (
        ChatCompletionChunk.model_validate({**HEAD, "object": "chat.completion.chunk", **event})
        .choices[0]
        .delta.content
        == "{}"
    )


def test_an_answer_that_comes_as_an_object_is_its_text() -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": {"steps": []}}}
    _, body = completion(json.dumps({"choices": [choice]}).encode())
    assert json.loads(json.loads(body)["choices"][0]["message"]["content"]) == {"steps": []}


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"},
        {"index": None, "message": {"content": "{}"}},
        {"index": 0, "delta": {"content": "{}"}, "finish_reason": "stop"},
        {"text": "{}", "finish_reason": "eos", "logprobs": None},
        {"index": "0", "text": "no", "message": {"content": "{}"}},
    ],
)
@pytest.mark.parametrize("head", [{}, {"object": "text_completion", "id": 7}])
def test_a_whole_answer_is_read_in_any_of_these_forms(choice: Any, head: Any) -> None:
    _, body = completion(json.dumps({**head, "choices": [choice]}).encode())
    told = json.loads(body)
    told["choices"][0].setdefault("finish_reason", "stop")  # the library mends this
    assert ChatCompletion.model_validate(told).choices[0].message.content == "{}"


@pytest.mark.parametrize(
    ("told", "read"), [("eos", "stop"), ("max_tokens", "length"), ("MAX_TOKENS", "length")]
)
def test_another_word_for_the_end_is_an_end(told: str, read: str) -> None:
    choice = {"index": 0, "finish_reason": told, "message": {"role": "assistant", "content": "{}"}}
    _, body = completion(json.dumps({"choices": [choice]}).encode())
    assert json.loads(body)["choices"][0]["finish_reason"] == read


@given(choices=values | st.lists(values, max_size=3))
def test_whatever_stands_for_the_choices_a_piece_has_a_form(choices: Any) -> None:
    event = {"choices": choices}
    _, told = chunk_in_form(event)
    assert not told or isinstance(event["choices"], list) or event["choices"] is None
    for choice in event["choices"] or ():
        assert isinstance(choice["delta"], dict)
        assert type(choice.get("index", 0)) is int


@pytest.mark.parametrize(
    "choice",
    [
        {"index": "0", "delta": {"content": "{}"}},
        {"index": None, "delta": {"content": "{}"}},
        {"index": 0, "message": {"role": "assistant", "content": "{}"}},
        {"delta": {"content": "{}", "refusal": []}},
        {"index": 0, "text": "{}"},
    ],
)
def test_the_first_answer_of_a_piece_is_heard_in_any_of_these_forms(choice: Any) -> None:
    event = {"choices": [choice, {"index": 1, "delta": {"content": "[]"}}, None]}
    _, told = chunk_in_form(event)
    assert told
    assert [one["delta"]["content"] for one in event["choices"]] == ["{}"]


@given(content=st.text(max_size=30), arguments=st.text(max_size=30), held=st.booleans())
def test_large_texts_are_kept_from_whoever_reads_the_body_and_come_back_as_they_were(
    content: str, arguments: str, held: bool
) -> None:
    coming = Coming(None)
    content, arguments = ((one + "x" * 20_000 * held) for one in (content, arguments))
    message = {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"function": {"arguments": arguments}}],
    }
    body = {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    _, read = completion(json.dumps(body).encode(), coming.hold)
    assert not held or len(read) < 1_000
    told = json.loads(read)["choices"][0]["message"]
    assert coming.whole(told["content"]) == content
    assert coming.whole(told["tool_calls"][0]["function"]["arguments"]) == arguments
