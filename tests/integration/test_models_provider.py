"""Models behind real HTTP on loopback: ways of asking, faults, retries, addresses and keys."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from replan.errors import ConfigError, ModelUnavailable
from replan.llm.address import base_url, key_for
from replan.llm.provider import open_model
from replan.ports import ModelRequest, Turn
from replan.testing import EndpointFault, ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.anyio

FREE_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "object"}}, "parameters": {"type": "object"}},
    "required": ["steps"],
}
PLAN = {"steps": [{"tool": "weather", "parameters": {"city": "Оslо 🌦"}}]}
SCRIPT = {"execution_plan": PLAN, "evaluation": {"overall_score": 90}}


VERDICT = {
    "type": "object",
    "properties": {"overall_score": {"type": "number"}},
    "required": ["overall_score"],
}


def request(schema_name: str = "execution_plan", **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "role": "planning",
        "schema_name": schema_name,
        "json_schema": VERDICT if schema_name == "evaluation" else FREE_FORM,
        "instructions": "Plan.",
        "turns": (Turn(role="user", text="Weather?"),),
    }
    return ModelRequest(**fields | changes)


class Waits:
    """A sleep that takes no time and says what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, secs: float) -> None:
        self.asked.append(secs)


def way_of(body: dict[str, Any]) -> str:
    if "response_format" in body:
        return "native"
    return "tool" if "tools" in body else "prompted"


@pytest.mark.parametrize(
    ("abilities", "ways"),
    [
        pytest.param({}, ["native", "native"], id="JSON schema"),
        pytest.param({"json_schema": False}, ["native", "tool", "tool"], id="tools"),
        pytest.param(
            {"json_schema": False, "tools": False},
            ["native", "tool", "prompted", "prompted"],
            id="words only",
        ),
    ],
)
async def test_the_strongest_way_of_asking_is_found_once_and_remembered(
    abilities: dict[str, bool], ways: list[str]
) -> None:
    with ScriptedEndpoint(SCRIPT, **abilities) as server:
        model = open_model("scripted", endpoint=server.url)
        first = await model.ask(request())
        second = await model.ask(request("evaluation"))
        await model.aclose()
    assert json.loads(first.text) == PLAN
    assert json.loads(second.text) == {"overall_score": 90}
    assert [way_of(body) for body in server.requests] == ways


async def test_the_schema_and_its_name_go_out_as_they_are() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        model = open_model("scripted", endpoint=server.url, temperature=0.7, top_p=0.9)
        await model.ask(request(max_tokens=50))
        await model.ask(request(temperature=0.0))
        await model.aclose()
    sent = server.requests[0]["response_format"]["json_schema"]
    assert sent == {"name": "execution_plan", "schema": FREE_FORM, "strict": False}
    assert (server.requests[0]["temperature"], server.requests[0]["top_p"]) == (0.7, 0.9)
    assert server.requests[0]["max_tokens"] == 50
    assert server.requests[1]["temperature"] == 0.0


async def test_the_whole_conversation_goes_out_with_the_instructions_once() -> None:
    turns = (Turn(role="user", text="a"), Turn(role="assistant", text="b"), Turn(role="user", text="c"))
    with ScriptedEndpoint(SCRIPT) as server:
        model = open_model("scripted", endpoint=server.url)
        await model.ask(request(turns=turns))
        await model.aclose()
    said = [(message["role"], message["content"]) for message in server.requests[0]["messages"]]
    assert said == [("system", "Plan."), ("user", "a"), ("assistant", "b"), ("user", "c")]


async def test_an_endpoint_that_does_not_keep_to_the_schema_is_asked_in_words_from_then_on() -> None:
    answers = {"execution_plan": ["Sure! First we look at the weather.", PLAN]}
    with ScriptedEndpoint({**SCRIPT, **answers}) as server:
        model = open_model("scripted", endpoint=server.url)
        plan = await model.ask(request())
        verdict = await model.ask(request("evaluation"))
        await model.aclose()
    assert json.loads(plan.text) == PLAN
    assert json.loads(verdict.text) == {"overall_score": 90}
    assert [way_of(body) for body in server.requests] == ["native", "prompted", "prompted"]
    assert json.dumps(FREE_FORM, separators=(",", ":")) in server.requests[1]["messages"][0]["content"]


async def test_a_model_that_takes_no_temperature_is_asked_without() -> None:
    refusal = EndpointFault(status=400, message="Unsupported value: 'temperature' does not support 0.7")
    with ScriptedEndpoint(SCRIPT, faults=[refusal]) as server:
        model = open_model("scripted", endpoint=server.url, temperature=0.7)
        await model.ask(request())
        await model.ask(request())
        await model.aclose()
    assert ["temperature" in body for body in server.requests] == [True, False, False]


async def test_one_refused_schema_does_not_spoil_the_others() -> None:
    refusal = EndpointFault(status=400, message="Invalid schema for response_format 'execution_plan'")
    with ScriptedEndpoint(SCRIPT, faults=[refusal]) as server:
        model = open_model("scripted", endpoint=server.url)
        await model.ask(request())
        await model.ask(request("evaluation"))
        await model.aclose()
    assert [way_of(body) for body in server.requests] == ["native", "tool", "native"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(EndpointFault(status=408), id="request timeout"),
        pytest.param(EndpointFault(status=409), id="conflict"),
        pytest.param(EndpointFault(status=429), id="too many requests"),
        pytest.param(EndpointFault(status=500), id="internal error"),
        pytest.param(EndpointFault(status=503), id="unavailable"),
        pytest.param(EndpointFault("drop"), id="closed without an answer"),
        pytest.param(EndpointFault("cut"), id="broken off"),
        pytest.param(EndpointFault("ends_early"), id="ended early"),
        pytest.param(EndpointFault("garbage"), id="a page of a proxy"),
    ],
)
@pytest.mark.parametrize("listening", [False, True], ids=["whole", "streamed"])
async def test_a_transient_fault_is_tried_again_and_nothing_is_heard_twice(
    fault: EndpointFault, listening: bool
) -> None:
    waits, pieces = Waits(), list[str]()
    with ScriptedEndpoint(SCRIPT, faults=[fault, fault]) as server:
        model = open_model("scripted", endpoint=server.url, sleep=waits)
        reply = await model.ask(request(), pieces.append if listening else None)
        await model.aclose()
    assert json.loads(reply.text) == PLAN
    assert "".join(pieces) == (reply.text if listening else "")
    assert 1 <= len(waits.asked) <= 2


async def test_what_the_endpoint_asks_to_wait_is_waited() -> None:
    waits = Waits()
    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault(status=429, retry_after="7")]) as server:
        model = open_model("scripted", endpoint=server.url, sleep=waits)
        await model.ask(request())
        await model.aclose()
    (waited,) = waits.asked
    assert 6.9 <= waited <= 8.75  # and a random part more


async def test_waits_grow_and_the_retries_end() -> None:
    waits = Waits()
    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault(status=503)] * 9) as server:
        model = open_model("scripted", endpoint=server.url, max_retries=3, sleep=waits)
        with pytest.raises(ModelUnavailable, match="503") as caught:
            await model.ask(request())
        await model.aclose()
    assert caught.value.transient
    assert len(server.requests) == 4
    assert all(
        low <= wait <= high for wait, low, high in zip(waits.asked, (0.25, 0.5, 1), (0.5, 1, 2), strict=True)
    )


async def test_a_wait_beyond_the_time_limit_is_not_begun() -> None:
    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault(status=503, retry_after="3600")]) as server:
        model = open_model("scripted", endpoint=server.url, timeout_secs=30)
        with pytest.raises(ModelUnavailable, match="503"):
            await model.ask(request())
        await model.aclose()


async def test_an_endpoint_that_never_answers_runs_into_the_time_limit() -> None:
    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault("hang")]) as server:
        model = open_model("scripted", endpoint=server.url)
        with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.2 s") as caught:
            await model.ask(request(timeout_secs=0.2))
        await model.aclose()
    assert caught.value.transient


async def test_a_cancelled_request_ends_at_once() -> None:
    with ScriptedEndpoint(SCRIPT, faults=[EndpointFault("hang")]) as server:
        model = open_model("scripted", endpoint=server.url)
        asking = asyncio.create_task(model.ask(request()))
        await asyncio.to_thread(server.arrived.wait, 5)
        began = time.monotonic()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert time.monotonic() - began < 1
        await model.aclose()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        pytest.param(EndpointFault(status=403, message="no"), "api_key", id="403"),
        pytest.param(EndpointFault(status=402, message="pay first"), "pay first", id="402"),
        pytest.param(EndpointFault(status=404, message="what?"), "404", id="404"),
    ],
)
async def test_a_lasting_refusal_is_told_at_once(fault: EndpointFault, says: str) -> None:
    with ScriptedEndpoint(SCRIPT, faults=[fault]) as server:
        model = open_model("scripted", endpoint=server.url)
        with pytest.raises(ModelUnavailable, match=says) as caught:
            await model.ask(request())
        await model.aclose()
    assert not caught.value.transient
    assert len(server.requests) == 1
    assert server.url in str(caught.value)


@pytest.mark.parametrize("status", [400, 422, 501])
async def test_a_refusal_that_no_way_of_asking_mends_is_told(status: int) -> None:
    fault = EndpointFault(status=status, message="the prompt is wrong")
    with ScriptedEndpoint(SCRIPT, faults=[fault] * 9) as server:
        model = open_model("scripted", endpoint=server.url)
        with pytest.raises(ModelUnavailable, match="the prompt is wrong") as caught:
            await model.ask(request())
        await model.aclose()
    assert not caught.value.transient
    assert [way_of(body) for body in server.requests] == ["native", "native", "tool", "prompted"]


async def test_a_prompt_that_is_too_long_is_not_asked_in_other_ways() -> None:
    fault = EndpointFault(status=400, message="too long", code="context_length_exceeded")
    with ScriptedEndpoint(SCRIPT, faults=[fault]) as server:
        model = open_model("scripted", endpoint=server.url)
        with pytest.raises(ModelUnavailable, match="too long"):
            await model.ask(request())
        await model.aclose()
    assert len(server.requests) == 1


async def test_a_refused_key_says_where_to_put_it() -> None:
    with ScriptedEndpoint(SCRIPT, api_key="right") as server:
        wrong = open_model("scripted", endpoint=server.url, api_key="wrong")
        with pytest.raises(ModelUnavailable, match="APP_LLM_API_KEY") as caught:
            await wrong.ask(request())
        right = open_model("scripted", endpoint=server.url, api_key="right")
        assert json.loads((await right.ask(request())).text) == PLAN
        await wrong.aclose()
        await right.aclose()
    assert caught.value.exit_code == 2
    assert "wrong" not in str(caught.value).replace("wrong key", "")


async def test_a_dead_endpoint_is_named() -> None:
    url = ScriptedEndpoint.refused_url()
    model = open_model("m", endpoint=url, max_retries=0)
    with pytest.raises(ModelUnavailable, match="cannot be reached") as caught:
        await model.ask(request())
    await model.aclose()
    assert url in str(caught.value)
    assert caught.value.transient


async def test_the_only_model_of_an_endpoint_needs_no_name() -> None:
    with ScriptedEndpoint(SCRIPT, models=["qwen:7b"]) as server:
        model = open_model(endpoint=server.url.removesuffix("/v1"))
        reply = await model.ask(request())
        await model.aclose()
    assert reply.model == "qwen:7b"
    assert model.name.startswith("qwen:7b@127.0.0.1:")


async def test_of_several_models_one_has_to_be_named() -> None:
    with ScriptedEndpoint(SCRIPT, models=["one", "two"]) as server:
        model = open_model(endpoint=server.url)
        with pytest.raises(ModelUnavailable, match="one, two") as caught:
            await model.ask(request())
        await model.aclose()
    assert caught.value.exit_code == 2


async def test_an_unknown_model_is_told_with_the_nearest_there() -> None:
    with ScriptedEndpoint(SCRIPT, models=["qwen-coder", "llama"]) as server:
        model = open_model("qwen-codr", endpoint=server.url)
        with pytest.raises(ModelUnavailable, match="it serves: qwen-coder") as caught:
            await model.ask(request())
        await model.aclose()
    assert caught.value.exit_code == 2


async def test_a_base_url_without_its_version_is_guessed_in_the_error() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        url = server.url.replace("/v1", "/api")
        model = open_model("scripted", endpoint=url)
        with pytest.raises(ModelUnavailable, match="/api/v1"):
            await model.ask(request())
        await model.aclose()


async def test_a_refusal_and_an_empty_answer_come_back_as_no_text() -> None:
    with ScriptedEndpoint({"execution_plan": ""}) as server:
        model = open_model("scripted", endpoint=server.url, max_retries=0)
        assert (await model.ask(request())).text == ""
        assert (await model.ask(request(), [].append)).text == ""
        await model.aclose()


def test_a_model_can_be_used_from_one_event_loop_after_another() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        model = open_model("scripted", endpoint=server.url, max_retries=0)
        for _ in range(2):
            assert json.loads(asyncio.run(_ask_and_close(model)).text) == PLAN


async def _ask_and_close(model: Any) -> Any:
    try:
        return await model.ask(request())
    finally:
        await model.aclose()


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        pytest.param("gpt-5", ConfigError, "PROVIDER:MODEL", id="no provider"),
        pytest.param("opnai:gpt-5", ConfigError, "did you mean openai", id="a slip in the provider"),
        pytest.param("openai:gpt-5", ModelUnavailable, "set OPENAI_API_KEY", id="no key"),
        pytest.param("cohere:command-x", ModelUnavailable, "pip install", id="a package is missing"),
    ],
)
def test_a_model_that_cannot_be_opened_says_what_to_do(
    name: str, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(error, match=says) as caught:
        open_model(name)
    assert caught.value.exit_code == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        pytest.param("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", id="no path"),
        pytest.param("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1", id="a slash at the end"),
        pytest.param("localhost:11434", "http://localhost:11434/v1", id="no scheme"),
        pytest.param("https://x.example/openai/v2", "https://x.example/openai/v2", id="a path of its own"),
        pytest.param(
            "https://x.example/v1/chat/completions", "https://x.example/v1", id="the whole operation"
        ),
        pytest.param("http://[::1]:9/v1", "http://[::1]:9/v1", id="IPv6"),
    ],
)
def test_an_address_means_a_base_url(given: str, meant: str) -> None:
    assert base_url(given) == meant


@pytest.mark.parametrize("given", ["", "ftp://x/v1", "http://", "http://x:99999/v1"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="is no endpoint"):
        base_url(given)


def test_a_key_of_the_environment_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert key_for("https://api.openai.com/v1", None) == "secret"
    assert key_for("http://127.0.0.1:8000/v1", None) == "none"
    assert key_for("http://127.0.0.1:8000/v1", "given") == "given"


async def test_the_scripted_model_and_the_scripted_endpoint_take_the_same_script() -> None:
    with ScriptedEndpoint(SCRIPT) as server:
        model = open_model("scripted", endpoint=server.url)
        over_http = await model.ask(request())
        await model.aclose()
    assert over_http.text == (await ScriptedModel(SCRIPT).ask(request())).text
