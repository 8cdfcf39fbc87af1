"""Tools of every kind of source that tell all they are given: nothing that is written, asked or printed has a secret."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, SecretStr
from secret_world import SECRETS, basic, leaks, leaks_of_files, verdict

from replan import Replan, tool
from replan.config import Settings
from replan.errors import ToolCallError
from replan.testing import ScriptedEndpoint
from replan.tools import FunctionSource
from replan.tools.kit.source import KitSource
from replan.tools.mcp import McpSource, StdioServer
from replan.tools.processes import run_program
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "mcp_secret_server.py"
WORD, OWN = SECRETS["declared"], SECRETS["header"]
"""What the tools are called with, and what their source is opened with."""


@tool(effect="reads", secrets=["word"])
async def repeat(word: str) -> dict[str, str]:
    """Repeat a word in every way."""
    return {"said": f"it is {word}", "json": json.dumps(word), "header": basic("bob", word), word: "a name"}


@tool(effect="reads")
async def deny(word: SecretStr) -> str:
    """Deny, and say why too exactly."""
    raise RuntimeError(
        f"{word.get_secret_value()!r} is no word; Authorization: Bearer {word.get_secret_value()}"
    )


@contextlib.asynccontextmanager
async def functions() -> AsyncIterator[list[Any]]:
    yield [repeat, deny]


@contextlib.asynccontextmanager
async def mcp_over_stdio() -> AsyncIterator[list[Any]]:
    server = StdioServer(sys.executable, (str(SERVER), "--token", OWN), {"REPEATS_TOKEN": SECRETS["client"]})
    yield [McpSource(server, name="repeats")]


async def _service(protocol: str) -> AsyncIterator[list[Any]]:
    ports: dict[str, Any] = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    async with running([FunctionSource([repeat, deny])], keys=Keys(), token=OWN, **ports) as served:
        yield [RemoteSource(served.urls, token=OWN)]


class Word(BaseModel):
    word: SecretStr


@contextlib.asynccontextmanager
async def a_framework() -> AsyncIterator[list[Any]]:
    def said(word: SecretStr) -> str:
        """Repeat a word."""
        return f"it is {word.get_secret_value()}, or {json.dumps(word.get_secret_value())}"

    def denied(word: SecretStr) -> str:
        """Deny."""
        raise RuntimeError(f"{word.get_secret_value()!r} is no word")

    named = (("repeat", said), ("deny", denied))
    yield [langchain_tool(name, args_schema=Word)(function) for name, function in named]


@contextlib.asynccontextmanager
async def programs() -> AsyncIterator[list[Any]]:
    async def say(word: str, code: str) -> str:
        command = [sys.executable, "-c", f"import sys; {code}", word]
        ended = await run_program(command, what="the program")
        if ended.exit_code:
            raise ToolCallError(
                f"the program ended with {ended.exit_code}: {ended.stderr.text}", happened="unknown"
            )
        return ended.stdout.text

    @tool(effect="reads", secrets=["word"])
    async def repeat(word: str) -> str:
        """Repeat a word."""
        return await say(word, "print(f'it is {sys.argv[1]}, or {sys.argv}')")

    @tool(effect="reads", secrets=["word"])
    async def deny(word: str) -> str:
        """Deny."""
        return await say(word, "sys.exit(f'{sys.argv[1]!r} is no word')")

    yield [KitSource([repeat, deny], name="programs")]


SOURCES = {
    "functions": functions,
    "programs": programs,
    "mcp over stdio": mcp_over_stdio,
    "tool service over http": lambda: contextlib.asynccontextmanager(_service)("http"),
    "tool service over grpc": lambda: contextlib.asynccontextmanager(_service)("grpc"),
    "LangChain": a_framework,
}
CALLS = {
    "steps": [
        {"step_id": "a", "tool": "repeat", "parameters": {"word": "${metadata.given}"}, "repeat": True},
        {"step_id": "b", "tool": "repeat", "parameters": {"word": "${metadata.given}"}, "dependencies": ["a"],
         "repeat": True},
        {"step_id": "c", "tool": "deny", "parameters": {"word": "${metadata.given}"}},
    ]
}  # fmt: skip


def answers() -> dict[str, Any]:
    reflected = {
        "root_cause": "denied", "category": "tool_error", "is_recoverable": True, "reasoning": "so",
        "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "denied"}},
    }  # fmt: skip
    overall = {
        "problem_nature": "tools", "should_replan": True, "reflection_text": "denied", "root_causes": ["denied"],
        "incorrect_assumptions": [], "alternative_approaches": ["leave it out"], "optimization_suggestions": [],
        "improvement_suggestions": [], "lessons_learned": [], "replanning_strategy": {"type": "full_replan"},
    }  # fmt: skip
    again = {
        "steps": [
            {
                "step_id": "d",
                "tool": "repeat",
                "parameters": {"word": "${metadata.given}"},
                "repeat": "it is wanted once more",
            }
        ]
    }
    return {
        "execution_plan": [CALLS, again],
        "step_reflection": reflected,
        "overall_reflection": overall,
        "evaluation": {
            **verdict(95, f"done, and it was {WORD}", success=True),
            "left_out_effects": [{"step": "c", "not_needed": "it was refused, and need not be said"}],
        },
    }


@pytest.mark.parametrize("source", SOURCES)
async def test_whatever_a_source_repeats_no_secret_is_written_or_asked(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIVEN", WORD)
    with ScriptedEndpoint(answers()) as endpoint:
        async with SOURCES[source]() as tools:
            replan = Replan(
                tools=tools, db=tmp_path / "log.db", endpoint=endpoint.url, record=tmp_path / "calls.jsonl",
                settings=Settings(), max_output_bytes=2_000,
            )  # fmt: skip
            async with replan:
                result = await replan.run("Repeat it", secrets={"given": "env:GIVEN"}, task_id="swept")
                records = await replan.history("swept")
                found = leaks_of_files(tmp_path)
    assert result.is_success, result.failure
    assert {"call_failed", "step_reflected", "replanning_started"} <= {one.type for one in records}
    assert "***" in json.dumps([one.wire() for one in records if one.type == "call_completed"])
    for body in endpoint.requests:
        found += leaks("a prompt", json.dumps(body, ensure_ascii=False))
    for record in records:
        found += leaks(record.type, json.dumps(record.wire(), ensure_ascii=False))
    out, err = capfd.readouterr()
    found += leaks("result", result.model_dump_json()) + leaks("stdout", out) + leaks("stderr", err)
    found += leaks_of_files(tmp_path)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("form", ["--json", "--events", "--quiet"])
def test_whatever_a_source_repeats_the_command_prints_no_secret(tmp_path: Path, form: str) -> None:
    env = {"GIVEN": WORD, "APP_LLM_API_KEY": SECRETS["model_key"]}
    spec = f"mcp:{sys.executable} {SERVER} --token {OWN}"
    with ScriptedEndpoint(answers()) as endpoint:
        url = endpoint.url.replace("http://", f"http://bob:{SECRETS['endpoint']}@")
        done = command(
            "run", "Repeat it", "--tools", spec, "--endpoint", url, "--model", "scripted", "--db", "log.db",
            "--record", "calls.jsonl", "--secret", "given=env:GIVEN", "--task-id", "swept", form,
            cwd=tmp_path, env=env,
        )  # fmt: skip
        prompts = json.dumps(endpoint.requests, ensure_ascii=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    found = leaks("stdout", done.stdout) + leaks("stderr", done.stderr) + leaks("prompts", prompts)
    for more in (
        ("show", "swept"),
        ("show", "swept", "--events"),
        ("result", "swept", "--json"),
        ("output", "swept", "a"),
    ):
        shown = command("tasks", *more, "--db", "log.db", cwd=tmp_path)
        assert shown.stdout, shown.stderr
        found += leaks(" ".join(more), shown.stdout + shown.stderr)
    found += leaks_of_files(tmp_path)
    assert found == [], "\n".join(found)
