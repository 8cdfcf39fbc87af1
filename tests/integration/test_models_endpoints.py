"""Endpoints that keep to the protocol in their own way: each is asked until an answer can be used, and every request counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from replan import Replan, tool
from replan.config import Settings
from replan.core.limits.policy import Budget
from replan.errors import ConfigError, ModelUnavailable
from replan.llm.completions import completion
from replan.llm.fallback import FallbackModel
from replan.llm.faults import AnswerTooLarge
from replan.llm.forms import usage_of
from replan.llm.ladder import MODES, Ladder, Way
from replan.llm.provider import open_model
from replan.llm.wire import EventStream
from replan.ports import ModelReply, ModelRequest, Turn
from replan.testing import EndpointFault, Habits, ScriptedEndpoint
from thorough import examples

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "object"}}},
    "required": ["steps"],
}
PLAN: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "weather", "parameters": {"city": "Oslo 🌦"}}]}
VERDICT: dict[str, Any] = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), 95),
    "final_output": "rain",
}
SCRIPT = {"execution_plan": PLAN, "evaluation": VERDICT}


@tool(effect="reads")
def weather(city: str) -> str:
    """The weather in a city."""
    return "rain"


def request(**changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "role": "planning",
        "schema_name": "execution_plan",
        "json_schema": SCHEMA,
        "instructions": "Plan.",
        "turns": (Turn(role="user", text="Weather?"),),
    }
    return ModelRequest(**fields | changes)


@asynccontextmanager
async def asking(server: ScriptedEndpoint, **more: Any) -> AsyncIterator[Any]:
    model = open_model("scripted", endpoint=server.url, sleep=_at_once, **more)
    try:
        yield model
    finally:
        await model.aclose()


async def _at_once(secs: float) -> None:
    """No test waits."""


def ways(server: ScriptedEndpoint) -> list[str]:
    def way(body: dict[str, Any]) -> str:
        mode = "native" if "response_format" in body else "tool" if "tools" in body else "words"
        return f"{mode}, streamed" if body.get("stream") else mode

    return [way(body) for body in server.requests]


async def twice(server: ScriptedEndpoint, *, listening: bool) -> tuple[ModelReply, list[str]]:
    """The second answer, the first one having taught the way; and what was heard of the first."""
    heard: list[str] = []
    async with asking(server) as model:
        first = await model.ask(request(), heard.append if listening else None)
        assert json.loads(first.text) == PLAN
        return await model.ask(request(), [].append if listening else None), heard


# ── answers that cannot be used ───────────────────────────────────────────────


@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("habits", "last"),
    [
        pytest.param(Habits(schema="nothing"), "tool", id="nothing for a schema"),
        pytest.param(Habits(schema="nothing", tool="nothing"), "words", id="nothing for a tool either"),
        pytest.param(Habits(schema="empty_object"), "tool", id="an empty object"),
        pytest.param(Habits(schema="empty_object", tool="empty_object"), "words", id="an empty object twice"),
        pytest.param(Habits(schema="no_choices"), "tool", id="no choices"),
        pytest.param(Habits(schema="null_choices", tool="no_choices"), "words", id="choices that are null"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_asked_for_in_the_next_way_and_that_is_remembered(
    habits: Habits, last: str, listening: bool
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=habits) as server:
        reply, _ = await twice(server, listening=listening)
    assert json.loads(reply.text) == PLAN
    asked = ways(server)
    assert asked[-1].startswith(last)
    assert asked[-2].startswith(last), "the first question found it, the second one knew it"
    assert len(asked) <= 5


async def test_an_answer_that_stands_among_the_thoughts_is_read() -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(schema="thoughts")) as server:
        reply, _ = await twice(server, listening=False)
    assert json.loads(reply.text) == PLAN
    assert ways(server) == ["native", "native"]


async def test_thoughts_that_are_no_answer_lead_to_the_next_way() -> None:
    answers = {"execution_plan": ["Let me think about {this}.", PLAN]}
    with ScriptedEndpoint(answers, habits=Habits(schema="thoughts")) as server:
        async with asking(server) as model:
            assert json.loads((await model.ask(request())).text) == PLAN
    assert ways(server) == ["native", "tool"]


@pytest.mark.parametrize("text", ['{"reason": "no such tool"}', '[{"steps": []}]', '{"plan": {"steps": []}}'])
async def test_an_answer_of_another_shape_that_the_schema_knows_is_an_answer(text: str) -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "reason": {"type": "string"}}}
    with ScriptedEndpoint({"execution_plan": text}) as server:
        async with asking(server) as model:
            assert (await model.ask(request(json_schema=schema))).text == text
    assert ways(server) == ["native"]


@pytest.mark.parametrize("kind", ["text/plain", "text/html; charset=utf-8", "application/octet-stream"])
async def test_an_answer_may_be_called_what_it_is_not(kind: str) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(content_type=kind)) as server:
        reply, _ = await twice(server, listening=False)
    assert json.loads(reply.text) == PLAN
    assert ways(server) == ["native", "native"]


async def test_an_answer_that_is_only_ever_thought_is_taken_from_there_in_the_end() -> None:
    habits = Habits(schema="thoughts", tool="thoughts", words="thoughts")
    with ScriptedEndpoint({"execution_plan": f"Let me see.\n{json.dumps(PLAN)}"}, habits=habits) as server:
        async with asking(server) as model:
            assert json.dumps(PLAN) in (await model.ask(request())).text
    assert ways(server) == ["native", "tool", "words"]


async def test_an_answer_that_is_only_broken_is_left_to_its_correction() -> None:
    with ScriptedEndpoint({"execution_plan": '{"steps": [{"step_id": "a"'}) as server:
        async with asking(server) as model:
            assert (await model.ask(request())).text.startswith('{"steps"')
    assert ways(server) == ["native"]


# ── answers that only their reader knows to be none ───────────────────────────


async def run_twice(server: ScriptedEndpoint, folder: Path, **more: Any) -> list[str]:
    """The ways of two tasks after one another, which both succeed."""
    async with Replan(endpoint=server.url, tools=[weather], db=folder / "log.db", **more) as replan:
        for text in ("Weather?", "Weather again?"):
            result = await replan.run(text)
            assert result.is_success, result.failure
    return ways(server)


@pytest.mark.parametrize(
    ("habits", "last"),
    [
        pytest.param(Habits(schema="blank"), "tool", id="white space until it is cut"),
        pytest.param(Habits(schema="gibberish"), "tool", id="signs without sense"),
        pytest.param(Habits(schema="schema_back"), "tool", id="the schema, said back"),
        pytest.param(Habits(schema="schema_back", tool="gibberish"), "words", id="nor by a tool"),
        pytest.param(Habits(schema="short"), "tool", id="half of it"),
        pytest.param(Habits(stream="cumulative"), "native", id="the text so far in each piece"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_asked_for_in_the_ways_below_and_what_worked_is_remembered(
    tmp_path: Path, habits: Habits, last: str
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=habits, piece=20) as server:
        asked = await run_twice(server, tmp_path)
    assert asked[0] == "native, streamed"
    assert asked[-2:] == [last, last], "the second task begins with what has worked"
    assert len(asked) <= 16


async def test_what_another_answer_says_in_the_same_stream_is_left_out(tmp_path: Path) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(stream="two_choices"), piece=20) as server:
        asked = await run_twice(server, tmp_path)
    assert asked == ["native, streamed"] * 4


async def test_an_answer_that_can_be_read_and_will_not_do_is_corrected_and_asked_in_no_other_way(
    tmp_path: Path,
) -> None:
    bad = {"steps": [{"step_id": "a", "tool": "nothing", "parameters": {}}]}
    with ScriptedEndpoint({"execution_plan": bad}) as server:
        async with Replan(endpoint=server.url, tools=[weather], db=tmp_path / "log.db") as replan:
            assert not (await replan.run("Weather?")).is_success
    assert set(ways(server)) == {"native, streamed"}


async def test_where_no_way_brings_an_answer_the_end_is_told_and_nothing_is_remembered(
    tmp_path: Path,
) -> None:
    habits = Habits(schema="gibberish", tool="gibberish", words="gibberish")
    with ScriptedEndpoint(SCRIPT, habits=habits) as server:
        async with Replan(endpoint=server.url, tools=[weather], db=tmp_path / "log.db") as replan:
            first = await replan.run("Weather?")
            count = len(server.requests)
            await replan.run("Weather again?")
    assert not first.is_success
    assert count <= 8
    assert ways(server)[count] == "native, streamed", "a bad hour of the endpoint is not held against it"


@given(
    schema=st.sampled_from(["right", "blank", "gibberish", "schema_back", "nothing", "empty_object"]),
    tool_way=st.sampled_from(["right", "blank", "gibberish", "nothing"]),
    stream=st.sampled_from(["right", "cumulative", "two_choices", "noisy"]),
)
@settings(max_examples=12, deadline=None)
async def test_as_long_as_one_way_answers_the_question_is_answered(
    schema: Any, tool_way: Any, stream: Any
) -> None:
    with (
        ScriptedEndpoint(
            SCRIPT, habits=Habits(schema=schema, tool=tool_way, stream=stream), piece=30
        ) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        async with Replan(endpoint=server.url, tools=[weather], db=Path(folder) / "log.db") as replan:
            assert (await replan.run("Weather?")).is_success


# ── refusals ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bare", [False, True], ids=["in words", "bare"])
@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "lacks",
    [
        pytest.param({"json_schema": False}, id="schemas"),
        pytest.param({"json_schema": False, "tools": False}, id="schemas and tools"),
        pytest.param({"streaming": False}, id="streams"),
        pytest.param({"json_schema": False, "streaming": False}, id="schemas and streams"),
        pytest.param({"system_role": False}, id="a system role"),
        pytest.param({"system_role": False, "json_schema": False, "tools": False}, id="all but a prompt"),
    ],
)
async def test_what_an_endpoint_refuses_is_left_out_whatever_it_says(
    lacks: dict[str, bool], listening: bool, bare: bool
) -> None:
    habits = Habits(system_role=lacks.get("system_role", True), bare_refusals=bare)
    able = {name: can for name, can in lacks.items() if name != "system_role"}
    with ScriptedEndpoint(SCRIPT, habits=habits, **able) as server:
        reply, heard = await twice(server, listening=listening)
        before = len(server.requests)
        async with asking(server) as model:
            await model.ask(request())
    assert json.loads(reply.text) == PLAN
    assert not listening or json.loads("".join(heard)) == PLAN
    assert before <= 7
    asked = server.requests[before - 1]
    assert "Plan." in str(asked["messages"][0]["content"])


async def test_the_instructions_stand_once_at_the_head_where_there_is_no_system_role() -> None:
    turns = tuple(
        Turn(role=role, text=text) for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))
    )
    with ScriptedEndpoint(SCRIPT, habits=Habits(system_role=False)) as server:
        async with asking(server) as model:
            await model.ask(request(turns=turns))
    said = [(message["role"], message["content"]) for message in server.requests[-1]["messages"]]
    assert said == [("user", "Plan.\n\na"), ("assistant", "b"), ("user", "c")]


async def test_a_server_that_fails_at_a_schema_is_asked_otherwise_on_the_next_try() -> None:
    fault = EndpointFault(status=500, message="oops")
    with ScriptedEndpoint(SCRIPT, faults=[fault, fault]) as server:
        async with asking(server) as model:
            assert json.loads((await model.ask(request())).text) == PLAN
            assert ways(server) == ["native", "native", "tool"]
            server.faults.append(fault)
            assert json.loads((await model.ask(request())).text) == PLAN
            assert ways(server)[3:] == ["native", "tool"], "known by now"
            await model.ask(request())
    assert ways(server)[5:] == ["native"]


# ── streams ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stream", "asked"),
    [
        pytest.param("noisy", ["native, streamed"] * 2, id="ids, comments and empty data"),
        pytest.param("unfinished", ["native, streamed"] * 2, id="no reason for its end"),
        pytest.param("broken", ["native, streamed", "native", "native"], id="not to be read"),
    ],
)
async def test_a_stream_in_another_form_is_read_or_else_asked_for_whole(
    stream: Any, asked: list[str]
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(stream=stream)) as server:
        reply, heard = await twice(server, listening=True)
    assert json.loads(reply.text) == PLAN
    assert json.loads("".join(heard)) == PLAN
    assert ways(server) == asked


async def test_streams_that_break_are_asked_for_whole_at_once_and_in_the_end_left_alone() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        async with asking(server) as model:
            for _ in range(2):
                server.faults.append(EndpointFault("cut"))
                assert json.loads((await model.ask(request(), [].append)).text) == PLAN
            await model.ask(request(), [].append)
    assert ways(server) == ["native, streamed", "native"] * 2 + ["native"]


async def test_an_error_of_the_server_in_every_stream_leads_to_a_whole_answer() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        async with asking(server) as model:
            for _ in range(2):
                server.faults.append(EndpointFault("in_stream", status=500, message="a guard stopped it"))
                assert json.loads((await model.ask(request(), [].append)).text) == PLAN
            await model.ask(request(), [].append)
    assert ways(server) == ["native, streamed", "native"] * 2 + ["native"]


async def test_a_limit_told_in_the_middle_of_a_stream_is_waited_for() -> None:
    waited: list[float] = []

    async def wait(secs: float) -> None:
        waited.append(secs)

    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault("in_stream", status=429)]) as server:
        model = open_model("scripted", endpoint=server.url, sleep=wait)
        assert json.loads((await model.ask(request(), [].append)).text) == PLAN
        await model.aclose()
    assert ways(server) == ["native, streamed"] * 2
    assert len(waited) == 1


def as_events(*data: str, mark: str = "data: {}", end: str = "\n\n") -> bytes:
    return "".join(mark.format(one) + end for one in data).encode()


class _Body:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@given(
    st.lists(st.sampled_from(["x", "é", "🌦", '"']), min_size=1, max_size=6),
    st.sampled_from(
        ["\n\n", "\r\n\r\n", "\r\r", "\n\n\n", "\n: ping\n\n", "\nid: 7\n\n: x\n\nretry: 3\n\ndata:\n\n"]
    ),
    st.sampled_from(["data: {}", "data:{}", "event: message\ndata: {}", "id: 3\ndata: {}"]),
    st.integers(1, 40),
)
async def test_however_a_stream_is_cut_and_decorated_its_data_comes_out(
    texts: list[str], end: str, mark: str, size: int
) -> None:
    sent = [json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False) for text in texts]
    whole = as_events(*sent, "[DONE]", mark=mark.replace("{}", "%s").replace("%s", "{0}"), end=end)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    events = [event async for event in EventStream(_Body(pieces))]  # type: ignore[arg-type]
    lines = [event.decode().removeprefix("data: ").strip() for event in events]
    assert lines[: len(sent)] == sent
    assert json.loads(lines[-2])["choices"][0]["finish_reason"] == "stop"
    assert lines[-1] == "[DONE]"


# ── refusals to answer, and arguments that are no text ────────────────────────


@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ("refused", "refuses to answer: I cannot help with that."),
        ("filtered", "a filter of contents has stopped it"),
    ],
)
async def test_a_model_that_refuses_is_asked_once_and_its_words_are_told(
    odd: Any, says: str, listening: bool
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(schema=odd, tool=odd, words=odd)) as server:
        async with asking(server) as model:
            with pytest.raises(ModelUnavailable, match=says) as caught:
                await model.ask(request(), [].append if listening else None)
    assert not caught.value.transient
    assert len(server.requests) == 1


async def test_a_task_whose_planner_refuses_ends_with_the_refusal(tmp_path: Any) -> None:
    refusing = Habits(schema="refused", tool="refused", words="refused")
    with ScriptedEndpoint(SCRIPT, habits=refusing) as server:
        async with Replan(tools=[weather], endpoint=server.url, db=tmp_path / "r.db") as replan:
            result = await replan.run("Say something bad")
    assert result.failure is not None
    assert result.failure.kind == "model"
    assert "I cannot help with that." in result.failure.reason


@pytest.mark.parametrize("odd", ["short", "right"])
async def test_an_answer_that_a_limit_of_tokens_has_cut_off_is_told_of_once(odd: Any, tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(schema=odd, tool=odd, words=odd)) as server:
        async with Replan(tools=[weather], endpoint=server.url, db=tmp_path / "r.db") as replan:
            task = await replan.submit("Weather?")
            told = [str(record) async for record in replan.watch(task, ephemeral=True)]
    lines = [line for line in told if "stopped at its limit of output tokens" in line]
    assert len(lines) == (odd == "short")


async def test_where_one_endpoint_refuses_another_one_is_asked() -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(schema="refused")) as one, ScriptedEndpoint(SCRIPT) as two:
        first, second = (open_model("scripted", endpoint=each.url, sleep=_at_once) for each in (one, two))
        model = FallbackModel([first, second])
        assert json.loads((await model.ask(request())).text) == PLAN
        await model.aclose()


@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
async def test_arguments_of_a_call_may_come_as_an_object(listening: bool) -> None:
    with ScriptedEndpoint(SCRIPT, json_schema=False, habits=Habits(arguments="object")) as server:
        reply, heard = await twice(server, listening=listening)
    assert json.loads(reply.text) == PLAN
    assert not listening or json.loads("".join(heard)) == PLAN
    assert ways(server)[-1].startswith("tool")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    )
)
def test_whatever_the_arguments_of_a_call_are_they_become_text_and_nothing_else_changes(value: Any) -> None:
    def answer(arguments: Any) -> dict[str, Any]:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        said = f'{{"arguments": {json.dumps(value)}}}'
        return {"role": "assistant", "content": said, "tool_calls": [call]}

    whole = {"choices": [{"index": 0, "message": answer(value)}]}
    status, sent = completion(json.dumps(whole).encode())
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    assert status == 200
    assert json.loads(sent)["choices"] == [{"index": 0, "message": answer(text)}]


# ── errors inside an answer ───────────────────────────────────────────────────


@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("status", "transient", "requests"),
    [
        pytest.param(401, False, 1, id="a refused key"),
        pytest.param(402, False, 1, id="no money"),
        pytest.param(429, True, 6, id="too many requests, for a minute"),
    ],
)
async def test_an_error_inside_an_answer_counts_as_what_it_says(
    status: int, transient: bool, requests: int, listening: bool
) -> None:
    fault = EndpointFault("inside_200", status=status, message="sorry")
    with ScriptedEndpoint(SCRIPT, faults=[fault] * 20) as server:
        async with asking(server) as model:
            with pytest.raises(ModelUnavailable, match="sorry") as caught:
                await model.ask(request(), [].append if listening else None)
    assert caught.value.transient is transient
    assert (
        requests <= len(server.requests) <= 2 * requests - 1
    )  # "too many": as long as there is time, and waits have a random part


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({"error": {"message": "x", "code": 401}}, 401, id="a code"),
        pytest.param({"error": {"message": "x", "code": "429"}}, 429, id="a code as text"),
        pytest.param({"error": {"message": "x", "status": 503}}, 503, id="a status"),
        pytest.param({"error": {"message": "x", "code": "bad_gateway"}}, 502, id="a word"),
        pytest.param({"error": "busy"}, 502, id="a text"),
        pytest.param({"error": {"code": True}, "choices": []}, 502, id="beside no choices"),
        pytest.param({"choices": None}, 200, id="no error"),
        pytest.param({"choices": [{}], "error": None}, 200, id="an error that is none"),
        pytest.param([1], 200, id="a list"),
    ],
)
def test_the_status_of_an_answer_is_that_of_the_error_inside(body: Any, status: int) -> None:
    assert completion(json.dumps(body).encode())[0] == status


# ── the ladder ────────────────────────────────────────────────────────────────


class _Refusal(Exception):
    """What an endpoint says."""


@given(
    st.sets(st.sampled_from(MODES), max_size=2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=examples(200))
def test_whatever_an_endpoint_refuses_without_a_word_a_way_is_found_in_few_requests_and_kept(
    modes: set[str], streams: bool, samples: bool, system: bool, bounds: bool, listening: bool, limited: bool
) -> None:
    from replan.llm.faults import EndpointError

    def takes(way: Way) -> bool:
        fits = (
            way.streamed <= streams,
            way.sampled <= samples,
            way.system <= system,
            way.bounded <= bounds,
        )
        return way.mode not in modes and all(fits)

    ladder = Ladder()
    counts = []
    for _ in range(4):
        climb = ladder.climb("execution_plan", ["steps"], streamed=listening, bounded=limited)
        count = 1
        while not takes(climb.way):
            assert climb.failed(EndpointError("bad request", status=400)), "there is a way, and it is found"
            count += 1
        assert not climb.answered(json.dumps(PLAN), "good", cut=False)
        counts.append(count)
    assert max(counts) <= 4 + limited
    assert counts[-1] == 1, "what worked is remembered"


def test_a_ladder_has_an_end() -> None:
    from replan.llm.faults import EndpointError

    climb = Ladder().climb("execution_plan", ["steps"], streamed=True)
    said = ["stream", "temperature", "json schema", "tools", "system"]
    asked = 1
    while climb.failed(EndpointError(said[asked % 5], status=400)):
        asked += 1
    assert asked <= 10


# ── every request counts ──────────────────────────────────────────────────────


@asynccontextmanager
async def replan(server: ScriptedEndpoint, tmp_path: Any, **more: Any) -> AsyncIterator[Replan]:
    async with Replan("scripted", [weather], endpoint=server.url, db=tmp_path / "db", **more) as made:
        yield made


async def said(made: Replan, task: str) -> tuple[Any, list[str]]:
    """The result of a task, and the sentences for people."""
    task_id = await made.submit(task)
    events = [record.event async for record in made.watch(task_id, ephemeral=True)]
    return await made.result(task_id), [event.message for event in events if event.type == "progress_update"]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"habits": Habits(schema="no_choices")}, id="no choices"),
        pytest.param({"json_schema": False}, id="refusals"),
        pytest.param({"faults": [EndpointFault(status=503)]}, id="a transient fault"),
        pytest.param({"habits": Habits(stream="broken")}, id="a broken stream"),
    ],
)
async def test_no_more_requests_are_made_than_the_budget_allows(trouble: Any, tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT, **trouble) as server:
        async with replan(server, tmp_path, budget=Budget(max_llm_calls=1)) as made:
            result = await made.run("Weather in Oslo?")
    assert result.failure is not None
    assert result.failure.limit == "max_llm_calls"
    assert len(server.requests) == 1
    assert result.usage.llm_calls == 1


async def test_every_request_is_counted_with_what_it_used(tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(schema="empty_object")) as server:
        async with replan(server, tmp_path) as made:
            result = await made.run("Weather in Oslo?")
    assert result.succeeded
    assert result.usage.llm_calls == len(server.requests) == 3
    told = sum(len(str(message["content"])) // 4 for body in server.requests for message in body["messages"])
    assert result.usage.input_tokens >= told - 20


async def test_a_request_that_does_not_fit_into_the_tokens_left_is_not_made(tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=100)) as made:
            result = await made.run("Weather in Oslo?")
    assert result.failure is not None
    assert result.failure.limit == "max_tokens"
    assert server.requests == []
    assert result.usage.input_tokens + result.usage.output_tokens == 0


@pytest.mark.parametrize("limit", [1_500, 2_500, 4_000])
async def test_tokens_are_estimated_where_the_endpoint_tells_none_and_that_is_said_once(
    limit: int, tmp_path: Any
) -> None:
    with ScriptedEndpoint(SCRIPT, habits=Habits(usage=False)) as server:
        async with replan(server, tmp_path, budget=Budget(max_tokens=limit)) as made:
            result, lines = await said(made, "Weather in Oslo?")
    used = result.usage.input_tokens + result.usage.output_tokens
    assert used <= limit + 200, "the last answer alone may go over it"
    assert len([line for line in lines if "estimated" in line]) == (1 if server.requests else 0)
    assert result.usage.llm_calls == len(server.requests)


# ── prices ────────────────────────────────────────────────────────────────────


def configured(**llm: Any) -> Settings:
    return Settings.model_validate({"llm": llm})


async def test_a_limit_in_dollars_needs_the_price_and_says_how_to_give_it(tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        async with replan(server, tmp_path, budget=Budget(max_cost_usd=1.0)) as made:
            with pytest.raises(ConfigError, match=r'\[llm\.prices\."scripted"\] with input') as caught:
                await made.submit("Weather in Oslo?")
            assert await made.tasks() == [], "refused before anything is stored"
    assert caught.value.exit_code == 2
    assert server.requests == []


@pytest.mark.parametrize("name", ["scripted", "*"])
async def test_a_given_price_binds(name: str, tmp_path: Any) -> None:
    priced = configured(prices={name: {"input": 1_000.0, "output": 2_000.0}})
    with ScriptedEndpoint(SCRIPT) as server:
        async with replan(server, tmp_path, budget=Budget(max_cost_usd=50.0), settings=priced) as made:
            result = await made.run("Weather in Oslo?")
            assert result.succeeded
            used = result.usage
            assert used.cost_usd == pytest.approx((used.input_tokens + 2 * used.output_tokens) / 1_000)
        async with replan(server, tmp_path, budget=Budget(max_cost_usd=0.01), settings=priced) as made:
            before = len(server.requests)
            failed = await made.run("Weather in Oslo?")
    assert failed.failure is not None
    assert failed.failure.limit == "max_cost_usd"
    assert len(server.requests) == before, "the request alone would cost more"


# ── which endpoint ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        pytest.param("qwen3:8b", "qwen3:8b", id="a tag"),
        pytest.param("hf.co/x/y:Q4_K_M", "hf.co/x/y:Q4_K_M", id="a path with a tag"),
        pytest.param("openai:m", "m", id="the name of a provider before"),
        pytest.param("scripted", "scripted", id="a bare name"),
    ],
)
@pytest.mark.parametrize("by", ["configuration", "argument"])
async def test_a_configured_endpoint_takes_every_name(name: str, sent: str, by: str, tmp_path: Any) -> None:
    with ScriptedEndpoint(SCRIPT, models=[sent], api_key="k") as server:
        where = {"endpoint": server.url} if by == "configuration" else {}
        made = Replan(
            None,
            [weather],
            db=tmp_path / "db",
            settings=configured(default_model=name, api_key="k", **where),
            endpoint=None if where else server.url,
        )
        async with made:
            assert (await made.run("Weather in Oslo?")).succeeded
    assert {body["model"] for body in server.requests} == {sent}


async def test_waiting_and_the_endpoint_that_answered_in_place_of_another_are_told(tmp_path: Any) -> None:
    busy = EndpointFault(status=429, retry_after="1", message="slow down")
    with (
        ScriptedEndpoint(SCRIPT, faults=[busy] * 9) as first,
        ScriptedEndpoint(SCRIPT, faults=[busy]) as second,
    ):
        llm = {"endpoint": first.url, "fallback_endpoint": second.url, "max_retries": 1}
        async with Replan("scripted", [weather], db=tmp_path / "db", settings=configured(**llm)) as made:
            result, lines = await said(made, "Weather in Oslo?")
            records = await made.history(result.task_id)
    assert result.succeeded
    assert any(line.startswith("waiting 1 s") and "slow down" in line for line in lines)
    assert any("does not answer, another is asked" in line for line in lines)
    answered = [record.event.endpoint for record in records if record.event.type == "llm_call_completed"]
    assert answered == [f"scripted@127.0.0.1:{second.url.rpartition(':')[2].removesuffix('/v1')}"] * 2


async def test_of_several_models_the_one_that_answered_is_named() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        dead = open_model("a", endpoint=ScriptedEndpoint.refused_url(), max_retries=0)
        model = FallbackModel([dead, open_model("scripted", endpoint=server.url)])
        reply = await model.ask(request())
        await model.aclose()
    assert reply.endpoint.startswith("scripted@")


@pytest.mark.parametrize(
    "able", [{}, {"json_schema": False}, {"json_schema": False, "tools": False}], ids=str
)
@pytest.mark.parametrize("arguments", ["text", "object"])
async def test_a_large_answer_that_comes_whole_goes_round_the_library_and_loses_nothing(
    able: Any, arguments: Any, tmp_path: Any
) -> None:
    words = "a few words <\u200d|im_start|> of it\n" * 20_000
    large = PLAN | {"reasoning": words}
    with ScriptedEndpoint(
        SCRIPT | {"execution_plan": large}, habits=Habits(arguments=arguments), streaming=False, **able
    ) as server:
        async with asking(server) as model:
            reply = await model.ask(request())
        async with replan(server, tmp_path) as made:
            assert (await made.run("Weather in Oslo?")).succeeded
    assert json.loads(reply.text) in (large, PLAN | {"reasoning": words.replace("\u200d", "")})
    assert reply.usage.output_tokens > 100_000


async def test_an_answer_that_is_far_too_large_is_read_no_further_and_not_asked_for_again() -> None:
    with ScriptedEndpoint({"execution_plan": {"steps": [], "reasoning": "x" * 5_000_000}}) as server:
        async with asking(server) as model:
            with pytest.raises(
                ModelUnavailable, match=r"sends an answer of more than 2,000,000 bytes"
            ) as raised:
                await model.ask(request())
    assert not raised.value.transient
    assert len(server.requests) == 1


@pytest.mark.parametrize("line_ends", [False, True], ids=["one event", "nothing but comments"])
async def test_a_stream_without_an_end_is_read_no_further(line_ends: bool) -> None:
    piece = b": ping\n" * 100_000 if line_ends else b"x" * 700_000
    with pytest.raises(AnswerTooLarge, match="not read further"):
        _ = [event async for event in EventStream(_Body([b"data: {", *[piece] * 100]))]  # type: ignore[arg-type]


ENDLESS = {
    "an error": ("500 Internal Server Error", "/v1/chat/completions", "text/plain"),
    "an error in JSON": ("400 Bad Request", "/v1/chat/completions", "application/json"),
    "a list of models": ("200 OK", "/v1/models", "application/json"),
}


@asynccontextmanager
async def endless(status: str, kind: str, sent: list[int]) -> AsyncIterator[str]:
    """An endpoint that answers everything with a body that does not end; `sent` counts its megabytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(head.encode())
            while True:
                writer.write(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
                await writer.drain()
                sent[0] += 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_body_without_an_end_is_read_no_further_whatever_it_is_a_body_of(what: str) -> None:
    status, path, kind = ENDLESS[what]
    sent = [0]
    async with endless(status, kind, sent) as url:
        named = "" if path.endswith("models") else "scripted"
        model = open_model(named, endpoint=url, max_retries=0)
        with pytest.raises(ModelUnavailable):
            await model.ask(request())
        await model.aclose()
    assert sent[0] < 64  # what the system holds on its way included


@pytest.mark.parametrize(
    ("told", "counted"),
    [(10.2, 11), (7, 7), (-5, 0), ("12", 0), (float("inf"), 0), (float("nan"), 0), (True, 0)],
)
def test_usage_that_an_endpoint_lies_about_loses_no_answer(told: Any, counted: int) -> None:
    used = RequestUsage()
    used.input_tokens = used.output_tokens = told
    usage = usage_of(ModelResponse(parts=[], usage=used, model_name="scripted"))
    assert (usage.input_tokens, usage.output_tokens) == (counted, counted)


ODD_USAGE: list[Any] = [
    pytest.param({"prompt_tokens": "10", "completion_tokens": "7", "total_tokens": "x"}, (10, 7), id="texts"),
    pytest.param(
        {"prompt_tokens": 10.2, "completion_tokens": 6.5, "total_tokens": 17}, (11, 7), id="fractions"
    ),
    pytest.param({"prompt_tokens": -9, "completion_tokens": 7, "total_tokens": -2}, None, id="negative"),
    pytest.param({"total_tokens": 17}, None, id="in all alone"),
    pytest.param([1], None, id="a list"),
    pytest.param("many", None, id="a word"),
    pytest.param(
        {"prompt_tokens": True, "completion_tokens": [7], "total_tokens": {}}, None, id="no numbers"
    ),
    pytest.param(
        {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}, None, id="nothing"
    ),
    pytest.param(
        {
            "prompt_tokens": 10,
            "completion_tokens": 7,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": "x"},
        },
        (10, 7),
        id="odd details",
    ),
]


@pytest.mark.parametrize(("told", "counted"), ODD_USAGE)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_what_an_endpoint_says_oddly_of_its_usage_is_counted_without_a_warning_of_a_library(
    told: Any, counted: Any, streams: bool
) -> None:
    with (
        warnings.catch_warnings(record=True) as caught,
        ScriptedEndpoint(SCRIPT, habits=Habits(usage=told)) as server,
    ):
        warnings.simplefilter("always")
        async with asking(server) as model:
            reply = await model.ask(request(), (lambda _: None) if streams else None)
    assert [
        str(one.message) for one in caught if "sage" in str(one.message) or "serializ" in str(one.message)
    ] == []
    used = (reply.usage.input_tokens, reply.usage.output_tokens)
    assert used == counted if counted else all(used), "where nothing is told it is estimated"
