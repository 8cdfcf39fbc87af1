"""Secrets of a dozen kinds through sources, roles, a failure, a repair and a new plan: afterwards nothing holds one."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Optional

import pytest
from pydantic import BaseModel, SecretStr
from secret_world import SECRETS, basic, leaks, leaks_of_files, verdict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from live_server import serving
from replan import Replan, tool
from replan.config import Settings
from replan.core.types import ToolSpec
from replan.ports import ToolCall
from replan.testing import ScriptedEndpoint
from replan.tools.network.addresses import AddressRules
from replan.tools.openapi import OpenApiSource

pytestmark = pytest.mark.anyio


class Login(BaseModel):
    name: str
    word: SecretStr


class Logins(BaseModel):
    all: list[Login]


@tool(effect="reads", secrets=["key"])
def look_up(key: str, what: str) -> dict[str, Any]:
    """Look something up with a key, and repeat the key."""
    assert key == SECRETS["declared"]
    return {"found": what, "echo": f"looked up with {key}", "auth": basic("bob", key), key: "as a name"}


@tool(effect="reads")
def enter(word: Optional[SecretStr] = None, n: int = 0) -> str:  # noqa: UP045 - as many write it
    """Enter with a password, if there is one; the first time it is refused."""
    assert word is None or word.get_secret_value() == SECRETS["optional"]
    if n < 2:
        raise RuntimeError(f"access denied for {word.get_secret_value() if word else None!r}")
    return "entered"


@tool(effect="once")
def enter_all(logins: Logins) -> list[str]:
    """Enter with several."""
    assert logins.all[0].word.get_secret_value() == SECRETS["nested"]
    return [login.name for login in logins.all]


@tool(effect="reads")
def with_metadata(api_token: str, given_secret: SecretStr) -> str:
    """Needs two secrets that the metadata hold."""
    assert (api_token, given_secret.get_secret_value()) == (SECRETS["metadata"], SECRETS["given"])
    return json.dumps({"said": f"used {api_token}", "and": given_secret.get_secret_value()})


@tool(effect="reads")
def login(password: str) -> str:
    """Log in with a password that the plan has in it."""
    assert password == SECRETS["literal"]
    return f"welcome, {password}"


@tool(effect="reads")
def large(key: SecretStr) -> str:
    """Much text, with a secret in it."""
    return "much text " * 5_000 + key.get_secret_value() + " and more" * 5_000


@tool(effect="reads")
def count(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


SESSION = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "token": {"type": "string", "format": "password"}},
}


class OwnSource:
    """A source of nobody's framework: a password behind a reference, one in its output, one in an error."""

    name = "own"

    async def tools(self) -> list[ToolSpec]:
        login = {
            "type": "object",
            "properties": {"login": {"$ref": "#/$defs/Login"}},
            "$defs": {
                "Login": {"type": "object", "properties": {"word": {"$ref": "#/$defs/Word"}}},
                "Word": {"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
            },
        }
        token = {"type": "object", "properties": {"token": {"type": "string"}}}
        return [
            ToolSpec(id="open_session", parameters=login, output_schema=SESSION, effect="reads"),
            ToolSpec(id="use_session", parameters=token, effect="reads"),
        ]

    async def call(self, call: ToolCall) -> Any:
        if call.tool_id == "open_session":
            assert call.parameters["login"]["word"] == SECRETS["behind_ref"]
            return {"id": 7, "token": SECRETS["output"]}
        assert call.parameters["token"] == SECRETS["output"]
        raise ValueError(f"no session {call.parameters['token']!r} any more")

    async def aclose(self) -> None:
        """Nothing is open."""


def service() -> Starlette:
    """Says back everything that it is sent, and gives tokens."""

    async def echo(request: Request) -> Response:
        return JSONResponse({"headers": dict(request.headers), "query": dict(request.query_params)})

    async def fail(request: Request) -> Response:
        return JSONResponse({"detail": f"bad credentials {dict(request.headers)} {request.url}"}, 403)

    async def token(request: Request) -> Response:
        return JSONResponse({"access_token": SECRETS["oauth"], "token_type": "bearer", "expires_in": 600})

    return Starlette(
        routes=[Route("/echo", echo), Route("/fail", fail), Route("/token", token, methods=["POST"])]
    )


def document(url: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "responses": {"200": {"description": "ok"}},
        "security": [{"key": [], "client": []}],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Echo", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/echo": {"get": {"operationId": "echo", **operation}},
            "/fail": {"get": {"operationId": "refuse", **operation}},
        },
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "query", "name": "key"},
                "client": {
                    "type": "oauth2",
                    "flows": {"clientCredentials": {"tokenUrl": f"{url}/token", "scopes": {}}},
                },
            }
        },
    }


def step(step_id: str, tool_id: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool_id, "parameters": parameters}


def first_plan() -> dict[str, Any]:
    return {
        "steps": [
            step("a", "look_up", key="${metadata.declared_api_key}", what="x"),
            step("b", "enter", word="${metadata.opt_password}", n=1),
            step("c", "enter_all", logins={"all": [{"name": "bob", "word": "${metadata.nested.secret}"}]}),
            step("d", "with_metadata"),
            step("e", "login", password=SECRETS["literal"]),
            step("f", "open_session", login={"word": "${metadata.ref_password}"}),
            step("g", "use_session", token="${f.output.token}"),
            step("h", "echo"),
            step("i", "refuse"),
            step("j", "large", key="${metadata.declared_api_key}"),
            step("k", "count", text="${j.output}"),
            step("l", "count", text="${a.output.echo} ${d.output.said}"),
        ]
    }


def selection(request: Any) -> dict[str, Any]:
    names = "look_up enter enter_all with_metadata login open_session use_session echo refuse large count"
    return {
        "task_type": "default",
        "tools": [{"tool_id": name, "score": 95, "reason": "needed"} for name in names.split()],
        "reasoning": "all of them",
    }


def reflection(request: Any) -> dict[str, Any]:
    text = json.dumps(request)
    action: dict[str, Any] = {"type": "trigger_overall_reflection", "data": {"summary": "it is refused"}}
    category = "tool_error"
    if "b: enter" in text:
        action, category = {"type": "retry_with_params", "data": {"parameters": {"n": 2}}}, "parameter_error"
    elif "g: use_session" in text:
        action = {"type": "repair_step", "data": {"hint": "count instead"}}
    return {
        "root_cause": "it was refused",
        "category": category,
        "is_recoverable": True,
        "suggested_action": action,
        "reasoning": "so",
    }


def overall(request: Any) -> dict[str, Any]:
    return {
        "problem_nature": "tools",
        "should_replan": True,
        "reflection_text": "the service refuses",
        "root_causes": ["refused"],
        "incorrect_assumptions": [],
        "alternative_approaches": ["leave it out"],
        "optimization_suggestions": [],
        "improvement_suggestions": [],
        "lessons_learned": [],
        "replanning_strategy": {"type": "full_replan"},
    }


def second_plan() -> dict[str, Any]:
    return {
        "steps": [
            step("m", "look_up", key="${metadata.declared_api_key}", what="${a.output.echo}"),
            step("n", "count", text="${f.output.token}${k.output}"),
        ]
    }


METADATA = {
    "declared_api_key": SECRETS["declared"],
    "opt_password": SECRETS["optional"],
    "nested": {"secret": SECRETS["nested"]},
    "ref_password": SECRETS["behind_ref"],
    "api_token": SECRETS["metadata"],
    "harmless": "stays",
}


async def test_nothing_that_is_written_or_asked_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    monkeypatch.setenv("SWEEP_SECRET", SECRETS["given"])
    caplog.set_level(logging.DEBUG)
    answers: dict[str, Any] = {
        "tool_selection": selection,
        "execution_plan": [{"steps": [step("a", "login", password=SECRETS["literal"], no="such")]}, first_plan(), second_plan(), {"steps": [step("p", "count", text="it is ${n.output}")]}],
        "step_reflection": reflection,
        "step_repair": step("g", "count", text="a session"),
        "overall_reflection": overall,
        "evaluation": [verdict(40, None, success=False), verdict(95, "all done", success=True)],
    }  # fmt: skip
    with serving(service()) as url, ScriptedEndpoint(answers) as endpoint:
        host = endpoint.url.removeprefix("http://")
        api = OpenApiSource(
            document(url),
            name="api",
            auth={"key": SECRETS["url"], "client": {"client_id": "me", "client_secret": SECRETS["client"]}},
            headers={"X-Own": SECRETS["header"]},
            rules=AddressRules(allow_private=True),
        )
        replan = Replan(
            tools=[look_up, enter, enter_all, with_metadata, login, large, count, OwnSource(), api],
            db=tmp_path / "log.db",
            endpoint=f"http://bob:{SECRETS['endpoint']}@{host}",
            api_key=SECRETS["model_key"] + "\n",
            record=tmp_path / "calls.jsonl",
            settings=Settings(),
            two_stage_tool_threshold=1,
            max_output_bytes=20_000,
        )
        async with replan:
            result = await replan.run(
                f"Log in with {SECRETS['declared']} and do the rest",
                metadata=METADATA,
                secrets={"given_secret": "env:SWEEP_SECRET"},
                task_id="swept",
            )
            records = await replan.history("swept")
            found = leaks_of_files(tmp_path)  # with what is still in the write-ahead log
            shown = [repr(await replan.output("swept", name)) for name in ("a", "d", "j")]
    prompts = [json.dumps(body, ensure_ascii=False) for body in endpoint.requests]
    asked = set(endpoint.calls)
    assert asked == {"tool_selection", "execution_plan", "step_reflection", "step_repair", "overall_reflection", "evaluation"}  # fmt: skip
    kinds = {record.type for record in records}
    assert {"plan_rejected", "call_failed", "step_reflected", "step_repaired", "replanning_started"} <= kinds
    assert result.is_success, result.failure
    done = {one.step_id: one for one in result.steps}
    assert done["n"].status == "succeeded", "the real values were referred to, though the log has none"
    whole = len("much text " * 5_000 + " and more" * 5_000) + len(SECRETS["declared"])
    assert (done["k"].output, done["n"].output) == (whole, len(SECRETS["output"]) + len(str(whole)))
    out, err = capfd.readouterr()
    for number, prompt in enumerate(prompts):
        found += leaks(f"prompt {number}", prompt)
    for record in records:
        found += leaks(f"event {record.seq} {record.type}", json.dumps(record.wire(), ensure_ascii=False))
    found += leaks("result", result.model_dump_json()) + leaks("outputs", "".join(shown))
    found += leaks("stdout", out) + leaks("stderr", err) + leaks("logging", caplog.text)
    found += leaks_of_files(tmp_path)
    assert found == [], "\n".join(found)
    assert "stays" in json.dumps(records[0].wire())
