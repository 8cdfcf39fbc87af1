"""A model service over gRPC, from both sides, on loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from run_tasks import verdict

from replan.app.replan import Replan
from replan.config.sections import Llm, ModelProvider, Settings
from replan.core.limits.prices import Price
from replan.errors import ConfigError, InputError, ModelUnavailable
from replan.llm.address import over_grpc
from replan.llm.faults import EndpointError
from replan.llm.grpc import conformance, serving
from replan.llm.grpc.wire import RETRY_METADATA, SERVICE, pb
from replan.llm.provider import open_model
from replan.llm.providers import opening
from replan.ports import Model, ModelReply, ModelRequest, Turn
from replan.testing import ScriptedEndpoint, ScriptedModel
from replan.wiring import ROLES, Models

pytestmark = pytest.mark.anyio

PLAN = {"steps": [{"tool": "weather", "parameters": {"city": "Oslo 🌦"}}]}
REQUEST = ModelRequest(
    role="planning",
    schema_name="execution_plan",
    json_schema={"type": "object", "properties": {"steps": {"type": "array"}}},
    instructions="Plan.",
    turns=(
        Turn(role="user", text="Weather? 天气"),
        Turn(role="assistant", text="{"),
        Turn(role="user", text="No."),
    ),
    max_tokens=500,
)


@asynccontextmanager
async def served(
    model: Model,
    token: str | None = None,
    hide: Callable[[str], str] = str,
    tls: tuple[bytes, bytes] | None = None,
    called: str = "",
) -> AsyncIterator[str]:
    until, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    named = dict.fromkeys(ROLES, called)
    server = serving.make_server(dict.fromkeys(ROLES, model), token, hide, called=named)
    running = asyncio.create_task(
        serving.serve(
            server, host="127.0.0.1", port=0, tls=tls, ready=ready.set_result, until=until, grace_secs=5
        )
    )
    try:
        yield await ready
    finally:
        until.set()
        await running


@asynccontextmanager
async def asking(url: str, name: str = "", **options: Any) -> AsyncIterator[Model]:
    model = open_model(name, endpoint=url, max_retries=options.pop("max_retries", 0), **options)
    try:
        yield model
    finally:
        await model.aclose()


async def test_what_is_asked_arrives_as_it_is_and_the_answer_comes_back() -> None:
    behind = ScriptedModel({"execution_plan": PLAN}, price=Price(input=1, output=1))
    async with served(behind) as url, asking(url, temperature=0.25) as model:
        reply = await model.ask(REQUEST)
    (asked,) = behind.requests
    assert json.loads(reply.text) == PLAN
    assert reply.model == "scripted"
    assert reply.usage.input_tokens > 0
    assert reply.usage.cost_usd > 0
    same = asked.model_copy(update={"timeout_secs": None, "temperature": None})
    assert same.model_dump() == REQUEST.model_dump()
    assert asked.temperature == 0.25


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "streaming off"])
async def test_pieces_come_as_they_are_said(streaming: bool) -> None:
    pieces: list[str] = []
    async with (
        served(ScriptedModel({"execution_plan": PLAN}, piece=7)) as url,
        asking(url, streaming=streaming) as model,
    ):
        reply = await model.ask(REQUEST, pieces.append)
    assert "".join(pieces) == reply.text
    assert (len(pieces) > 3) is streaming


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("error", "transient", "status", "wait"),
    [
        (EndpointError("busy", transient=True, status=429, retry_after=7), True, 429, 7.0),
        (EndpointError("gone for a while", transient=True, status=503), True, 503, None),
        (EndpointError("withholds its answer"), False, 400, None),
        (EndpointError("no such model", status=404, setup=True), False, 404, None),
        # The key of the service, which is not ours.
        (EndpointError("refuses access", status=401, setup=True), False, None, None),
    ],
    ids=["busy", "away", "withheld", "unknown", "the service's own key"],
)
async def test_faults_are_what_they_were(
    error: EndpointError, transient: bool, status: int | None, wait: float | None, streamed: bool
) -> None:
    async with served(ScriptedModel({"execution_plan": [error]})) as url, asking(url) as model:
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(REQUEST, (lambda _: None) if streamed else None)
    found = caught.value.__cause__ if not isinstance(caught.value, EndpointError) else caught.value
    assert isinstance(found, EndpointError)
    assert (found.transient, found.status, found.retry_after) == (transient, status, wait)
    assert str(error) in str(found)
    assert not found.refused


async def test_secrets_of_the_service_are_in_no_fault() -> None:
    error = EndpointError("http://ann:hunter2@inside answers with 500", transient=True)
    hide = lambda text: text.replace("hunter2", "***")  # noqa: E731
    async with served(ScriptedModel({"execution_plan": [error]}), hide=hide) as url, asking(url) as model:
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(REQUEST)
    assert "***" in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_fault_that_passes_is_tried_again() -> None:
    answers = [EndpointError("away", transient=True, status=503), PLAN]
    async with (
        served(ScriptedModel({"execution_plan": answers})) as url,
        asking(url, max_retries=1) as model,
    ):
        assert json.loads((await model.ask(REQUEST)).text) == PLAN


async def test_a_token_is_wanted_and_its_lack_is_told_as_a_setting() -> None:
    async with served(ScriptedModel({"execution_plan": PLAN}), token="right") as url:
        async with asking(url, api_key="wrong") as model:
            with pytest.raises(ModelUnavailable, match="APP_LLM_API_KEY") as caught:
                await model.ask(REQUEST)
        async with asking(url, api_key="right") as model:
            assert json.loads((await model.ask(REQUEST)).text) == PLAN
    assert caught.value.refused
    assert caught.value.exit_code == 2
    assert "wrong" not in str(caught.value).replace("missing or wrong", "")


class Slow(ScriptedModel):
    """Begins, and never ends by itself."""

    def __init__(self) -> None:
        super().__init__({})
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_is_cancelled_here_is_cancelled_there(streamed: bool) -> None:
    slow = Slow()
    async with served(slow) as url, asking(url) as model:
        task = asyncio.create_task(model.ask(REQUEST, (lambda _: None) if streamed else None))
        await slow.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(slow.cancelled.wait(), 10)


async def test_the_time_limit_ends_the_call_on_both_sides() -> None:
    slow = Slow()
    async with served(slow) as url, asking(url, timeout_secs=0.3) as model:
        with pytest.raises(ModelUnavailable, match="did not answer") as caught:
            await model.ask(REQUEST)
        await asyncio.wait_for(slow.cancelled.wait(), 10)
    assert caught.value.transient


async def test_a_service_that_is_not_there_is_told_at_once() -> None:
    gone = ScriptedEndpoint.refused_url().replace("http://", "grpc://").removesuffix("/v1")
    async with asking(gone) as model:
        with pytest.raises(ModelUnavailable, match="cannot be reached") as caught:
            await model.ask(REQUEST)
    assert caught.value.transient


@pytest.mark.parametrize(
    ("said", "wait"), [("9", 9.0), ("400", 400.0), ("1e300", None), ("nan", None), ("-1", None)]
)
async def test_other_peoples_services_may_say_when_in_plain_metadata(said: str, wait: float | None) -> None:
    async def answer(request: Any, context: Any) -> Any:
        await context.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", trailing_metadata=((RETRY_METADATA, said),)
        )

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=pb.AnswerRequest.FromString,
        response_serializer=lambda one: one.SerializeToString(),
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Answer": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with asking(f"grpc://127.0.0.1:{port}") as model:
        with pytest.raises(ModelUnavailable, match="slow down") as caught:
            await model.ask(REQUEST)
    await server.stop(0)
    assert getattr(caught.value, "retry_after", None) == wait


async def test_an_answer_that_is_no_message_is_asked_for_again() -> None:
    answers = [b"\xff\xff", pb.AnswerResponse(text='{"steps": []}').SerializeToString()]

    async def answer(request: bytes, context: Any) -> bytes:
        return answers.pop(0)

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Answer": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with asking(f"grpc://127.0.0.1:{port}", max_retries=1) as model:
        assert (await model.ask(REQUEST)).text == '{"steps": []}'
    await server.stop(0)
    assert not answers


@pytest.mark.parametrize("url", ["http://u:pw@[::1/v1", "grpc://[::1", "grpcs://u:pw@[::1"])
def test_an_address_that_cannot_be_read_is_told(url: str) -> None:
    with pytest.raises(ConfigError, match=r"is no endpoint|is no model service") as caught:
        open_model("m", endpoint=url)
    assert "pw" not in str(caught.value)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A folder with `cert.pem` and `key.pem` for this machine."""
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    made += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with the program openssl")
async def test_over_tls_a_certificate_is_verified(certificate: Path) -> None:
    key, chain = certificate / "key.pem", certificate / "cert.pem"
    tls = (chain.read_bytes(), key.read_bytes())
    async with served(ScriptedModel({"execution_plan": PLAN}), tls=tls) as url:
        assert url.startswith("grpcs://")
        async with asking(url, ca_file=chain) as model:
            assert json.loads((await model.ask(REQUEST)).text) == PLAN
        async with asking(url) as model:
            with pytest.raises(ModelUnavailable, match=r"could not be secured.*\[llm\] ca_file"):
                await model.ask(REQUEST)
        tried = await conformance.check(url, ca_file=chain)
        assert [one.rule for one in tried if "listed" in one.rule and one.verdict == "kept"]
        with pytest.raises(InputError, match=r"cannot be checked: .*ca_file"):
            await conformance.check(url)
    with pytest.raises(InputError, match="ca_file"):
        open_model("", endpoint=url, ca_file=certificate / "none.pem")


async def test_a_task_by_the_protocol_of_the_configuration_with_a_provider_behind_it(tmp_path: Path) -> None:
    """What the service asks is an endpoint over HTTP; its fallback is another service."""

    def weather(city: str) -> str:
        return f"rain in {city}"

    plan = {"steps": [{"step_id": "step_1", "tool": "weather", "parameters": {"city": "Oslo"}}]}
    with ScriptedEndpoint({"execution_plan": plan, "evaluation": verdict(output="rain in Oslo")}) as provider:
        llm = Llm(default_model="mine:scripted", providers={"mine": ModelProvider(endpoint=provider.url)})
        behind = Models(Settings(llm=llm))
        gone = ScriptedEndpoint.refused_url().removesuffix("/v1")
        async with served(behind["planning"]) as url:
            fallback = url.replace("grpc://", "http://")  # as the older service's file has it
            settings = Settings(
                llm=Llm(protocol="grpc", endpoint=gone, fallback_endpoint=fallback, max_retries=0)
            )
            async with Replan(settings=settings, tools=[weather], db=tmp_path / "tasks.db") as replan:
                result = await replan.run("What is the weather in Oslo?")
        await behind.aclose()
    assert result.succeeded, result.failure
    assert result.output == "rain in Oslo"


@pytest.mark.parametrize("asked", ["", "qwen3", "openai:qwen3", "qwen3@127.0.0.1:45317"])
async def test_a_model_is_listed_and_asked_for_by_its_name_wherever_it_is(asked: str) -> None:
    model = ScriptedModel({"execution_plan": PLAN}, name="qwen3@127.0.0.1:45317")
    async with served(model, called="openai:qwen3") as url, asking(url, asked) as here:
        assert await opening.served_by(url, None) == ["openai:qwen3"]
        assert json.loads((await here.ask(REQUEST)).text) == PLAN
        async with asking(url, "qwen4") as other:
            with pytest.raises(ModelUnavailable, match="no model 'qwen4'; there are: openai:qwen3"):
                await other.ask(REQUEST)


async def test_the_suite_finds_our_service_right_and_a_wrong_one_wrong() -> None:
    async with served(ScriptedModel(lambda _: {"city": "Rome"}), token="t") as url:
        right = await conformance.check(url, "t")
    assert [each for each in right if each.verdict != "kept"] == []
    assert len(right) == 7
    async with served(ScriptedModel(lambda _: "Rome, of course")) as url:
        wrong = await conformance.check(url)
    broken = {each.rule for each in wrong if each.verdict == "broken"}
    assert broken == {"an answer is one JSON object"}


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("models:8471", "grpc://models:8471"),
        ("http://models:8471", "grpc://models:8471"),
        ("https://models:8471/", "grpcs://models:8471"),
        ("grpcs://[::1]:1", "grpcs://[::1]:1"),
    ],
)
async def test_addresses(given: str, means: str) -> None:
    assert over_grpc(given) == means


@pytest.mark.parametrize(
    "given", ["models", "grpc://", "ftp://models:1", "grpc://ann:pw@models:1", "models:x"]
)
async def test_what_is_no_address(given: str) -> None:
    with pytest.raises(ConfigError, match="grpc://host:port") as caught:
        over_grpc(given)
    assert "pw" not in str(caught.value)
