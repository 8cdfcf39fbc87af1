"""What every `Model` keeps to, whatever is behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from replan.llm.fallback import FallbackModel
from replan.llm.grpc.serving import ROLES, make_server
from replan.llm.local.model import LocalModel
from replan.llm.local.weights import DEFAULT, find
from replan.llm.provider import open_model
from replan.llm.recorder import RecordingModel, ReplayModel
from replan.llm.retry import RetryingModel
from replan.ports import Model, ModelRequest, Turn
from replan.testing import ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "note": {"type": "string", "maxLength": 40}},
    "required": ["city", "note"],
    "additionalProperties": False,
}
REQUEST = ModelRequest(
    role="planning",
    schema_name="execution_plan",
    json_schema=SCHEMA,
    instructions="Answer with JSON: the capital of the country, and a note of at most three words.",
    turns=(Turn(role="user", text="Italy 🇮🇹 (意大利)"),),
    temperature=0.0,
    max_tokens=60,
)
ANSWER = {"city": "Rome", "note": "罗马 ☀️"}
SCRIPT = {"execution_plan": ANSWER}

Opener = Callable[[Path], AbstractAsyncContextManager[Model]]


def endpoint(
    *, json_schema: bool = True, tools: bool = True, streaming: bool = True, ask_streaming: bool = True
) -> Opener:
    @asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Model]:
        with ScriptedEndpoint(SCRIPT, json_schema=json_schema, tools=tools, streaming=streaming) as server:
            yield open_model("scripted", endpoint=server.url, streaming=ask_streaming)

    return opened


@asynccontextmanager
async def scripted(_: Path) -> AsyncIterator[Model]:
    yield ScriptedModel(SCRIPT)


@asynccontextmanager
async def retrying(_: Path) -> AsyncIterator[Model]:
    yield RetryingModel(ScriptedModel(SCRIPT), timeout_secs=5)


@asynccontextmanager
async def fallback(_: Path) -> AsyncIterator[Model]:
    yield FallbackModel(
        [open_model("m", endpoint=ScriptedEndpoint.refused_url(), max_retries=0), ScriptedModel(SCRIPT)]
    )


@asynccontextmanager
async def recording(folder: Path) -> AsyncIterator[Model]:
    yield RecordingModel(ScriptedModel(SCRIPT), folder / "recording.jsonl")


@asynccontextmanager
async def replay(folder: Path) -> AsyncIterator[Model]:
    recorder = RecordingModel(ScriptedModel({"execution_plan": [ANSWER] * 4}), folder / "recording.jsonl")
    for _ in range(4):
        await recorder.ask(REQUEST)
    await recorder.aclose()
    yield ReplayModel(folder / "recording.jsonl")


@asynccontextmanager
async def service(_: Path) -> AsyncIterator[Model]:
    server = make_server(dict.fromkeys(ROLES, ScriptedModel(SCRIPT)))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield open_model("", endpoint=f"grpc://127.0.0.1:{port}")
    await server.stop(0)


@pytest.fixture(scope="module")
def local() -> Iterator[Model]:
    """One for all tests: its weights take seconds to load."""
    if find(DEFAULT) is None:
        pytest.skip("the weights of the built-in model are not here: `replan model pull`")
    model = LocalModel(n_ctx=1024)
    yield model
    asyncio.run(model.aclose())


@pytest.fixture(
    params=[
        pytest.param(scripted, id="scripted"),
        pytest.param(retrying, id="retrying"),
        pytest.param(fallback, id="fallback"),
        pytest.param(recording, id="recording"),
        pytest.param(replay, id="replay"),
        pytest.param(endpoint(), id="endpoint with JSON schema"),
        pytest.param(endpoint(json_schema=False), id="endpoint with tools"),
        pytest.param(endpoint(json_schema=False, tools=False), id="endpoint with neither"),
        pytest.param(endpoint(streaming=False), id="endpoint without streaming"),
        pytest.param(endpoint(ask_streaming=False), id="endpoint, streaming off"),
        pytest.param(
            endpoint(json_schema=False, streaming=False), id="endpoint with tools, without streaming"
        ),
        pytest.param(endpoint(json_schema=False, tools=False, streaming=False), id="endpoint with nothing"),
        pytest.param(service, id="service over gRPC"),
        pytest.param(None, id="local", marks=pytest.mark.live),
    ]
)
async def model(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Model]:
    if request.param is None:
        yield request.getfixturevalue("local")
        return
    async with request.param(tmp_path) as opened:
        yield opened
        await opened.aclose()


async def test_it_answers_with_json_of_the_schema_and_says_what_it_cost(model: Model) -> None:
    reply = await model.ask(REQUEST)
    answer = json.loads(reply.text)
    assert answer["city"] == "Rome"
    assert answer["note"]
    assert reply.model
    assert reply.usage.llm_calls == 1
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


async def test_the_pieces_that_a_listener_hears_add_up_to_the_answer(model: Model) -> None:
    pieces: list[str] = []
    reply = await model.ask(REQUEST, pieces.append)
    assert "".join(pieces) == reply.text
    assert json.loads(reply.text)["city"] == "Rome"


async def test_the_same_question_again_gets_the_same_answer(model: Model) -> None:
    first = await model.ask(REQUEST)
    second = await model.ask(REQUEST)
    assert json.loads(first.text) == json.loads(second.text)


async def test_it_has_a_name_and_a_style_and_can_be_closed_twice(model: Model) -> None:
    assert model.name
    assert model.style in ("standard", "small")
    await model.ask(REQUEST)
    await model.aclose()
