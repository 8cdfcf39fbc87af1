"""Answers that do not end: what the task has left bounds them while they come, and what has come is counted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cpu_time import cpu
from replan import Replan, tool
from replan.config import Settings
from replan.core.limits.policy import Budget
from replan.core.types import Usage
from replan.errors import ModelUnavailable
from replan.llm.coming import MOST_TOKENS, Coming, words_of
from replan.llm.faults import Endless
from replan.llm.provider import open_model
from replan.llm.wire import EventStream
from replan.ports import ModelRequest, Turn
from replan.testing import EndpointFault, Habits, ScriptedEndpoint

pytestmark = pytest.mark.anyio

PLAN: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "weather", "parameters": {"city": "Oslo"}}]}
VERDICT: dict[str, Any] = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), 95),
    "final_output": "rain",
}
SCRIPT = {"execution_plan": PLAN, "evaluation": VERDICT}
LONG = {"execution_plan": {**PLAN, "reasoning": "and again " * 200}, "evaluation": VERDICT}
ENDLESS = Habits(stream="endless")


@tool(effect="reads")
def weather(city: str) -> str:
    """The weather in a city."""
    return "rain"


def replan(server: ScriptedEndpoint, tmp_path: Path, **more: Any) -> Replan:
    return Replan(None, [weather], db=tmp_path / "db", endpoint=server.url, **more)


@pytest.mark.parametrize(
    "habits",
    [
        pytest.param(ENDLESS, id="words"),
        pytest.param(Habits(stream="endless", schema="thoughts"), id="thoughts"),
        pytest.param(Habits(stream="endless", schema="blank"), id="blanks"),
    ],
)
async def test_an_answer_without_an_end_is_stopped_where_nothing_is_left_for_it(
    habits: Habits, tmp_path: Path
) -> None:
    with ScriptedEndpoint(LONG, habits=habits, piece=200) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=8_000)) as made:
            result = await made.run("Weather in Oslo?")
    assert result.failure is not None
    assert result.failure.limit == "max_tokens"
    assert len(server.requests) == result.usage.llm_calls == 1
    assert 8_000 <= result.usage.input_tokens + result.usage.output_tokens < 12_000


async def test_so_is_what_a_step_asks(tmp_path: Path) -> None:
    asks = {
        "steps": [{"step_id": "a", "tool": "model", "parameters": {"instruction": "Sum up.", "input": "x"}}]
    }
    with ScriptedEndpoint({"step_answer": "and again " * 200}, habits=ENDLESS, piece=200) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=3_000)) as made:
            result = await made.run("Sum up", plan=asks, evaluation="steps")
    assert result.failure is not None
    assert result.failure.limit == "max_tokens"
    assert len(server.requests) == result.usage.llm_calls <= 3
    assert 3_000 <= result.usage.input_tokens + result.usage.output_tokens < 6_000


async def test_one_that_a_limit_in_dollars_is_too_small_for_is_stopped_too(tmp_path: Path) -> None:
    priced = Settings.model_validate({"llm": {"prices": {"*": {"input": 0.0, "output": 1_000.0}}}})
    with ScriptedEndpoint(LONG, habits=ENDLESS, piece=200) as server:
        async with replan(server, tmp_path, budget=Budget(max_cost_usd=2.0), settings=priced) as made:
            result = await made.run("Weather in Oslo?")
    assert result.failure is not None
    assert result.failure.limit == "max_cost_usd"
    assert server.requests[0]["max_tokens"] == 2_000
    assert 2.0 <= result.usage.cost_usd < 4.0


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("told", [1, -7, 10**15])
async def test_an_endpoint_that_lies_about_what_it_uses_neither_escapes_a_limit_nor_uses_it_up(
    told: int, streams: bool, tmp_path: Path
) -> None:
    lies = Habits(usage={"prompt_tokens": told, "completion_tokens": told, "total_tokens": told})
    empty: dict[str, Any] = {"steps": [], "reasoning": "and again " * 4_000, "x": 1}
    many = {"execution_plan": empty, "evaluation": VERDICT}
    with ScriptedEndpoint(many, habits=lies, streaming=streams, piece=2_000) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=30_000)) as made:
            result = await made.run("Weather in Oslo?")
        assert result.failure is not None
        assert result.failure.limit == "max_tokens"
        assert 10_000 < result.usage.input_tokens + result.usage.output_tokens < 45_000
    with ScriptedEndpoint(SCRIPT, habits=lies, streaming=streams) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=30_000)) as made:
            assert (await made.run("Weather in Oslo?")).succeeded


async def test_what_has_come_counts_where_the_time_is_up_before_the_end(tmp_path: Path) -> None:
    with ScriptedEndpoint(SCRIPT, habits=ENDLESS) as server:
        async with replan(server, tmp_path) as made:
            result = await made.run("Weather in Oslo?", timeout=1.5)
    assert result.status == "timed_out"
    assert result.usage.llm_calls == len(server.requests) == 1
    assert result.usage.output_tokens > 100
    assert result.usage.input_tokens > 1_000


async def test_what_has_come_of_a_stream_that_broke_counts_beside_the_answer_that_came_then(
    tmp_path: Path,
) -> None:
    with ScriptedEndpoint(LONG, faults=[EndpointFault("cut")]) as server:
        async with replan(server, tmp_path) as made:
            result = await made.run("Weather in Oslo?")
        async with replan(server, tmp_path) as made:
            whole = await made.run("Weather in Oslo?")
    assert result.succeeded
    assert result.usage.llm_calls == 3
    assert result.usage.output_tokens > whole.usage.output_tokens + 200


async def test_an_answer_says_how_much_is_left_for_it_where_a_limit_is_set(tmp_path: Path) -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=20_000)) as made:
            result = await made.run("Weather in Oslo?")
        first, second = (body["max_tokens"] for body in server.requests)
        assert result.succeeded
        assert 10_000 < second < first < 20_000
        async with replan(server, tmp_path) as made:
            assert (await made.run("Weather in Oslo?")).succeeded
        async with replan(server, tmp_path, budget=Budget(max_tokens=10_000_000)) as made:
            assert (await made.run("Weather in Oslo?")).succeeded
    assert not any("max_tokens" in body for body in server.requests[2:]), "no answer has so much"


@pytest.mark.parametrize("bare", [False, True], ids=["and says so", "without a word"])
async def test_an_endpoint_that_takes_no_such_limit_is_asked_without_it_from_then_on(
    bare: bool, tmp_path: Path
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(max_tokens=False, bare_refusals=bare)) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=20_000)) as made:
            assert (await made.run("Weather in Oslo?")).succeeded
    assert ["max_tokens" in body for body in server.requests] == [True, False, False]
    assert all(body["stream"] for body in server.requests), "nothing else is left out"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (402, "This request requires more credits. You requested up to 17300, but can only afford 4000."),
        (413, "Request too large: tokens per minute: Limit 6000, Requested 20000"),
        (429, "Request too large: reduce max_tokens"),
        (403, "max_tokens is over what this key allows"),
    ],
)
async def test_a_refusal_for_the_sake_of_what_an_answer_may_take_is_asked_again_without_a_limit(
    tmp_path: Path, status: int, message: str
) -> None:
    faults = [EndpointFault(status=status, message=message)]
    with ScriptedEndpoint(SCRIPT, faults=faults) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=20_000)) as made:
            assert (await made.run("do it")).is_success
    assert ["max_tokens" in body for body in server.requests][:2] == [True, False]


async def test_without_any_limit_an_answer_is_read_up_to_what_the_largest_models_say() -> None:
    asked = ModelRequest(
        role="planning",
        schema_name="execution_plan",
        json_schema={"type": "object", "properties": {"steps": {"type": "array"}}, "required": ["steps"]},
        instructions="Plan.",
        turns=(Turn(role="user", text="Weather?"),),
    )
    with ScriptedEndpoint(LONG, habits=ENDLESS, piece=2_000) as server:
        model = open_model("scripted", endpoint=server.url, max_retries=1)
        with pytest.raises(ModelUnavailable, match="its answer has no end") as told:
            await model.ask(asked, lambda _: None)
        await model.aclose()
    assert not told.value.transient
    assert len(server.requests) == 1, "in another way it would cost as much again"


class Watch:
    """A `Watcher` that only keeps what it is told."""

    def __init__(self) -> None:
        self.tokens = 0

    def sending(self, because: str = "") -> None: ...

    def room(self) -> int | None:
        return None

    def came(self, tokens: int) -> None:
        self.tokens = tokens

    def used(self, usage: Usage) -> None: ...

    def tell(self, message: str, *, once: bool = False) -> None: ...


def test_pieces_count_by_their_length_and_silent_ones_as_a_token_each() -> None:
    watch = Watch()
    coming = Coming(watch)
    for _ in range(100):
        coming.said("a")
    assert watch.tokens == 25, "a server that sends single letters has not said more"
    for _ in range(50):
        coming.said("")
    assert watch.tokens == 75
    with pytest.raises(Endless):
        coming.said("x" * 4 * MOST_TOKENS)


def test_a_stream_that_says_the_whole_again_each_time_counts_once() -> None:
    watch = Watch()
    coming = Coming(watch)
    whole = "abcdefgh" * 100
    for end in range(8, len(whole) + 1, 8):
        coming.said(whole[:end])
    assert watch.tokens == len(whole) // 4
    for _ in range(10):
        coming.said("bla bla ")
    assert watch.tokens == (len(whole) + 80) // 4, "the same piece again is said again"


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ({"role": "assistant", "content": "abc"}, "abc"),
        ({"content": None, "reasoning_content": "hm"}, "hm"),
        ({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "hm"),
        ({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": '{"a"'}}]}, '{"a"'),
        ({"content": [{"type": "text", "text": "abc"}]}, "abc"),
        ({}, ""),
        (None, ""),
    ],
)
def test_what_a_piece_says_is_heard_wherever_it_stands(delta: Any, words: str) -> None:
    assert words_of([{"index": 0, "delta": delta, "finish_reason": None}]) == words


class _Body:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def test_a_long_line_is_gone_through_once_in_however_many_pieces_it_comes() -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "' + b"x" * 1_900_000 + b'"}}]}'
    whole = event + b"\n\ndata: [DONE]\n\n"
    pieces = [whole[at : at + 500] for at in range(0, len(whole), 500)]
    with cpu(1.5):
        read = [one async for one in EventStream(_Body(pieces))]  # type: ignore[arg-type]
    assert read[0].strip() == event


async def test_of_what_a_stream_says_of_its_usage_with_each_piece_the_last_counts() -> None:
    def piece(text: str, used: int) -> bytes:
        told = {"prompt_tokens": 10, "completion_tokens": used, "total_tokens": 10 + used}
        choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
        return f"data: {json.dumps({'choices': choices, 'usage': told})}\n\n".encode()

    body = _Body([*(piece("x", at) for at in range(1, 30)), b"data: [DONE]\n\n"])
    events = [one.decode().removeprefix("data: ").strip() async for one in EventStream(body)]  # type: ignore[arg-type]
    told = [json.loads(one).get("usage") for one in events if one != "[DONE]"]
    assert [one["completion_tokens"] for one in told if one] == [29]
    assert events[-1] == "[DONE]"


async def test_what_has_come_counts_where_a_person_pauses_or_cancels_in_the_middle(tmp_path: Path) -> None:
    with ScriptedEndpoint(SCRIPT, habits=ENDLESS) as server:
        async with replan(server, tmp_path) as made:
            for stop in ("pause", "cancel"):
                task_id = await made.submit("Weather in Oslo?")
                async for record in made.watch(task_id, ephemeral=True):
                    if record.event.type == "llm_token":
                        break
                await (made.pause(task_id, now=True) if stop == "pause" else made.cancel(task_id))
                result = await made.wait(task_id)
                assert result.status == ("waiting" if stop == "pause" else "cancelled")
                assert result.usage.output_tokens > 0, stop
                assert result.usage.llm_calls == 1
