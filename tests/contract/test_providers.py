"""Every provider of models, by configuration alone: its own wire, spoken by a stand-in on loopback, asked by its own library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from provider_wires import (
    AWS_ID,
    AWS_SECRET,
    KEY,
    REGION,
    Anthropic,
    Azure,
    Bedrock,
    Chat,
    Gemini,
    Say,
    StandIn,
    Wire,
)

from replan.config.sections import Llm, ModelPrice, ModelProvider, Settings
from replan.errors import ModelUnavailable
from replan.ports import Model, ModelRequest, Turn
from replan.wiring import Models

pytestmark = pytest.mark.anyio

PLAN = {"steps": [{"tool": "weather", "parameters": {"city": "Oslo 🌦"}}]}
TEXT = json.dumps(PLAN)
REQUEST = ModelRequest(
    role="planning",
    schema_name="execution_plan",
    json_schema={
        "type": "object",
        "properties": {"steps": {"type": "array", "items": {"type": "object"}}},
        "required": ["steps"],
    },
    instructions="Plan.",
    turns=(Turn(role="user", text="Weather?"),),
)

WIRES: dict[str, tuple[str, type[Any], str, str]] = {
    "openai": ("openai-chat:gpt-4o", Chat, "/v1", ""),
    "azure": ("azure:gpt-4o", Azure, "", ""),
    "anthropic": ("anthropic:claude-sonnet-5", Anthropic, "", "anthropic"),
    "google": ("google:gemini-3-pro", Gemini, "", "google.genai"),
    "bedrock": ("bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0", Bedrock, "", "boto3"),
    "ollama": ("ollama:qwen3:8b", Chat, "/v1", ""),
    "vllm": ("vllm:Qwen/Qwen3-8B", Chat, "/v1", ""),
    "llamacpp": ("llamacpp:any", Chat, "/v1", ""),
    "mine": ("mine:some-model", Chat, "/v1", ""),
}
"""The model, what is spoken, where at the server, and the package that it needs."""
FIRST = {"anthropic": "tool", "bedrock": "tool"}
"""How each is asked at first; the others by a JSON schema."""


@pytest.fixture(params=WIRES)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if package := WIRES[request.param][3]:
        pytest.importorskip(package)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", AWS_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    return str(request.param)


def settings(provider: str, server: StandIn, **more: Any) -> Settings:
    table: dict[str, Any] = {"endpoint": server.url + WIRES[provider][2]}
    if provider == "bedrock":
        table["region"] = REGION
    else:
        table["api_key"] = KEY
    if provider == "azure":
        table["api_version"] = "2024-10-21"
    fields: dict[str, Any] = {"max_retries": 0, "providers": {provider: ModelProvider(**table)}}
    fields["default_model"] = WIRES[provider][0].replace("openai-chat", "openai")
    return Settings(llm=Llm(**fields | more))


@asynccontextmanager
async def asking(provider: str, *says: Say, **more: Any) -> AsyncIterator[tuple[Model, StandIn]]:
    wire: Wire = WIRES[provider][1]()
    with StandIn(wire, list(says)) as server:
        models = Models(settings(provider, server, **more))
        try:
            yield models["planning"], server
        finally:
            await models.aclose()
    assert server.refusals == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_an_answer_with_its_thoughts_and_what_it_has_used(provider: str, streamed: bool) -> None:
    said: list[str] = []
    say = Say(TEXT, thoughts="Oslo, or is it Bergen? Oslo.")
    async with asking(provider, say) as (model, server):
        reply = await model.ask(REQUEST, said.append if streamed else None)
    assert json.loads(reply.text) == PLAN
    assert server.wire.way(server.seen[0].body) == FIRST.get(provider, "native")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (300, 200, 20)
    if streamed:
        assert json.loads("".join(said)) == PLAN  # no thought is a piece of an answer


@pytest.mark.parametrize("way", ["tool", "prompted"])
async def test_the_way_that_is_declared(provider: str, way: str) -> None:
    async with asking(provider, Say(TEXT)) as (_, server):
        table = {
            "structured": way,
            **settings(provider, server).llm.providers[provider].model_dump(exclude={"structured"}),
        }
        models = Models(settings(provider, server, providers={provider: ModelProvider(**table)}))
        reply = await models["planning"].ask(REQUEST)
        await models.aclose()
    assert json.loads(reply.text) == PLAN
    assert server.wire.way(server.seen[0].body) == way


async def test_a_busy_provider_is_asked_again_when_it_says_and_once(provider: str) -> None:
    busy = Say(status=429, message="slow down", retry_after="7")
    async with asking(provider, busy) as (model, server):
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(REQUEST)
        assert caught.value.transient
        assert getattr(caught.value, "retry_after", None) == 7
        with pytest.raises(ModelUnavailable, match="left alone") as held:
            await model.ask(REQUEST)  # of another task: it is not sent
    assert held.value.transient
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [500, 503])
async def test_a_provider_that_fails_is_no_fault_for_ever_and_is_asked_once(
    provider: str, status: int
) -> None:
    async with asking(provider, Say(status=status)) as (model, server):
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(REQUEST)
    assert caught.value.transient
    assert len(server.seen) == 1  # nobody tries again below us


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_an_answer_that_breaks_off_is_asked_for_again(provider: str, streamed: bool) -> None:
    said: list[str] = []
    cut = Say(TEXT, cut=True)
    async with asking(provider, cut, Say(TEXT), max_retries=1) as (model, server):
        reply = await model.ask(REQUEST, said.append if streamed else None)
    assert json.loads(reply.text) == PLAN
    assert len(server.seen) == 2
    if streamed:
        assert json.loads("".join(said)) == PLAN


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_refusal_is_no_answer(provider: str, streamed: bool) -> None:
    async with asking(provider, Say(end="refusal")) as (model, _):
        with pytest.raises(ModelUnavailable, match=r"withholds|refuses") as caught:
            await model.ask(REQUEST, (lambda _: None) if streamed else None)
    assert not caught.value.transient


async def test_an_answer_that_ends_at_its_limit_is_given_as_it_is(provider: str) -> None:
    async with asking(provider, Say('{"steps": []}', end="length")) as (model, server):
        reply = await model.ask(REQUEST.model_copy(update={"max_tokens": 900}))
    assert json.loads(reply.text) == {"steps": []}
    assert "900" in json.dumps(server.seen[0].body)


async def test_a_key_that_is_refused_is_told_without_the_key(provider: str) -> None:
    async with asking(provider, Say(status=401, message="who are you?")) as (model, _):
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(REQUEST)
    assert caught.value.refused
    assert caught.value.exit_code == 2
    assert KEY not in str(caught.value)
    assert AWS_SECRET not in str(caught.value)


async def test_what_every_prompt_begins_with_is_kept_where_a_provider_has_to_be_told() -> None:
    pytest.importorskip("anthropic")
    async with asking("anthropic", Say(TEXT)) as (model, server):
        await model.ask(REQUEST)
    (head,) = server.seen[0].body["system"]
    assert (head["text"], head["cache_control"]["type"]) == ("Plan.", "ephemeral")
    async with asking("anthropic", Say(TEXT), prompt_caching=False) as (model, server):
        await model.ask(REQUEST)
    assert "cache_control" not in json.dumps(server.seen[0].body)


@pytest.mark.parametrize(
    ("provider", "where"),
    [
        ("anthropic", ["thinking", "type"]),
        ("google", ["generationConfig", "thinkingConfig", "thinking_level"]),
    ],
)
async def test_how_long_a_model_thinks_is_told_and_then_no_temperature(
    provider: str, where: list[str]
) -> None:
    pytest.importorskip(WIRES[provider][3])
    async with asking(provider, Say(TEXT), thinking="low") as (model, server):
        assert json.loads((await model.ask(REQUEST)).text) == PLAN
    found: Any = server.seen[0].body
    for name in where:
        found = found[name]
    assert found
    assert "temperature" not in json.dumps(server.seen[0].body)


async def test_another_provider_stands_in_and_is_sent_its_own_key() -> None:
    with (
        StandIn(Chat(), [Say(status=503), Say(status=503)]) as first,
        StandIn(Azure(), [Say(TEXT), Say(TEXT)]) as second,
    ):
        azure = ModelProvider(endpoint=second.url, api_version="2024-10-21", api_key=KEY)
        llm = Llm(
            api_key=KEY,
            default_model="mine:m",
            fallback_models=("azure:gpt-4o",),
            providers={"mine": ModelProvider(endpoint=f"{first.url}/v1"), "azure": azure},
        )
        models = Models(Settings(llm=llm))
        reply = await models["planning"].ask(REQUEST)
        again = await models["planning"].ask(REQUEST)
        await models.aclose()
    assert json.loads(reply.text) == json.loads(again.text) == PLAN
    assert "azure" in reply.endpoint
    assert first.refusals == second.refusals == []


async def test_the_key_of_the_configuration_goes_to_no_other_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    llm = Llm(
        api_key=KEY,
        default_model="vllm:m",
        fallback_models=("azure:gpt-4o",),
        providers={"azure": ModelProvider(endpoint="http://127.0.0.1:9", api_version="1")},
    )
    with pytest.raises(ModelUnavailable, match="AZURE_OPENAI_API_KEY"):
        _ = Models(Settings(llm=llm))["planning"]


async def test_what_was_read_from_a_cache_has_its_own_price() -> None:
    prices = {"mine:some-model": ModelPrice(input=10, output=100, cached_input=1)}
    async with asking("mine", Say(TEXT), prices=prices) as (model, _):
        reply = await model.ask(REQUEST)
    assert reply.usage.cost_usd == pytest.approx((100 * 10 + 200 * 1 + 20 * 100) / 1e6)


@pytest.mark.parametrize(("name", "sampled"), [("gpt-5", False), ("gpt-4.1", True)])
async def test_openai_is_sent_schemas_as_they_are_and_a_temperature_where_it_takes_one(
    name: str, sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StandIn(Chat(), [Say(TEXT)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        models = Models(Settings(llm=Llm(default_model=f"openai-chat:{name}", api_key=KEY)))
        reply = await models["planning"].ask(REQUEST)
        await models.aclose()
    body = server.seen[0].body
    assert json.loads(reply.text) == PLAN
    assert body["response_format"]["json_schema"]["schema"] == REQUEST.json_schema
    assert ("temperature" in body, "top_p" in body) == (sampled, sampled)
