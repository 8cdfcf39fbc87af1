"""MCP servers over stdio: what their tools are, what comes back, and how their processes begin and end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from faults_mcp_stdio import RAW, raw

from replan import File, Replan, tool
from replan.core.failures.faults import classify, in_doubt, may_retry
from replan.core.limits.breaker import Breaker
from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import Progress, Question, ToolCall
from replan.tools import Catalog
from replan.tools.mcp import McpSource, StdioServer, from_file

pytestmark = pytest.mark.anyio
PNG = "iVBORw0KGgo="


@contextlib.asynccontextmanager
async def opened(*args: str, **options: Any) -> AsyncIterator[McpSource]:
    source = McpSource(StdioServer(sys.executable, (str(RAW), *args)), name="raw", **options)
    try:
        yield source
    finally:
        await source.aclose()


async def call(
    source: McpSource, tool: str, /, ask: Any = None, report: Any = None, **parameters: Any
) -> Any:
    request = ToolCall(tool, parameters, "the-key", "task", "step", report=report, ask=ask)
    async with asyncio.timeout(20):
        return await source.call(request)


async def failed(source: McpSource, tool: str, /, **parameters: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        await call(source, tool, **parameters)
    return caught.value


def specs(tools: Any) -> dict[str, ToolSpec]:
    return {spec.id: spec for spec in tools}


async def test_annotations_become_effects_titles_and_notes() -> None:
    async with opened() as source:
        found = specs(await source.tools())
    assert (found["add"].effect, found["put"].effect, found["fail"].effect) == ("reads", "repeatable", "once")
    assert found["add"].name == "Add numbers"
    assert not found["add"].volatile
    assert "outside" in found["put"].description
    assert found["echo"].output_schema is None
    assert found["add"].output_schema == {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
    }


async def test_what_is_said_here_comes_before_what_the_server_says() -> None:
    tools = {
        "add": {"effect": "once", "timeout_secs": 5, "honours_key": True},
        "fail": "reads",
        "put": {"volatile": True, "errors_are_clean": False},
        "ad": "reads",
    }
    async with opened(tools=tools, timeout_secs=9, trust_annotations=False) as source:
        found = specs(await source.tools())
        problems = source.problems()
    assert (found["add"].effect, found["add"].timeout_secs, found["add"].honours_key) == ("once", 5, True)
    assert (found["fail"].effect, found["put"].effect, found["echo"].effect) == ("reads", "once", "once")
    assert found["put"].volatile
    assert not found["put"].errors_are_clean
    assert found["echo"].timeout_secs == 9
    (problem,) = problems
    assert problem.tool == "ad"
    assert "'add'" in problem.message


async def test_a_file_says_limits_trust_and_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, or milliseconds from 1000 on; what only other clients know is read over;
    a tool that the file disables is not there."""
    entry = {"command": sys.executable, "args": [str(RAW)], "disabledTools": ["put"], "autoApprove": ["*"]}
    servers = {
        "secs": {**entry, "timeout": 999, "tools": {"echo": {"timeout_secs": 20, "honours_key": True}}},
        "millis": {**entry, "timeout": 1000, "trust_annotations": False, "tools": {"fail": "reads"}},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    secs, millis = from_file("~/mcp.json")
    found = specs(await secs.tools())
    assert (found["add"].timeout_secs, found["add"].effect) == (999, "reads")
    assert (found["echo"].timeout_secs, found["echo"].honours_key) == (20, True)
    assert "put" not in found
    found = specs(await millis.tools())
    assert (found["add"].timeout_secs, found["add"].effect, found["fail"].effect) == (1, "once", "reads")
    for source in (secs, millis):
        await source.aclose()


async def test_one_bad_tool_is_left_out_and_told_and_the_others_stay() -> None:
    async with opened("--fault", "bad tools") as source:
        found = specs(await source.tools())
        told = {problem.tool: problem.message for problem in source.problems()}
        assert await call(source, "add", a=1, b=2) == {"sum": 3}
        assert await call(source, "add", a=1, b=2) == {"sum": 3}
    assert {"bad_output", "bad_hints"} <= found.keys()
    assert not {"no_schema", "schema_of_text", "list_schema", "bad_type"} & found.keys()
    assert found["bad_output"].output_schema is None
    assert found["bad_hints"].effect == "once"
    assert set(told) == {
        "only_task",
        "no_schema",
        "schema_of_text",
        "list_schema",
        "bad_type",
        "bad_output",
        None,
    }
    assert "'nothing'" in told["bad_type"]


@pytest.mark.parametrize(("fault", "word"), [pytest.param("circle", "cycle", id="pages that go round")])
async def test_a_list_without_end_is_cut_off(fault: str, word: str) -> None:
    async with opened("--fault", fault, "--page", "5") as source:
        tools = await source.tools()
        assert any(word in problem.message for problem in source.problems())
    assert "echo" in specs(tools)


async def test_of_pages_that_repeat_each_other_each_problem_is_told_once() -> None:
    async with opened("--fault", "same page again") as source:
        names = [spec.id for spec in await source.tools()]
        problems = [(problem.tool, problem.message) for problem in source.problems()]
    assert len(names) == len(set(names)) == 3
    assert len(problems) == len(set(problems))
    assert {tool for tool, message in problems if "twice" in message} == set(names)
    assert any("1000 pages" in message for _, message in problems)


async def test_an_empty_cursor_ends_a_list() -> None:
    async with opened("--fault", "empty cursor", "--page", "10") as source:
        names = [spec.id for spec in await source.tools()]
        assert len(names) == len(set(names)) > 20
        assert not source.problems()


async def test_lines_may_begin_with_a_mark_of_byte_order() -> None:
    async with opened("--fault", "byte order mark") as source:
        assert await call(source, "add", a=1, b=1) == {"sum": 2}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_servers_of_every_older_protocol(version: str) -> None:
    async with opened("--version", version, "--page", "2") as source:
        assert await call(source, "add", a=2, b=2) == {"sum": 4}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


IMAGE = {"type": "image", "mimeType": "image/png", "data": PNG}
SHOWN = {"type": "image", "mimeType": "image/png", "data": f"data:image/png;base64,{PNG}"}


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        pytest.param([{"type": "text", "text": '{"a": 1}'}], None, '{"a": 1}', id="JSON text stays text"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], None, ["a", "b"], id="several"
        ),
        pytest.param([text('{"a": [1]}')], {"a": [1]}, {"a": [1]}, id="structured, and the same as text"),
        pytest.param([text(" ")], {"a": [1]}, {"a": [1]}, id="structured, and an empty text"),
        pytest.param(
            [text("There is one.")],
            {"a": [1]},
            {"a": [1], "content": ["There is one."]},
            id="structured, and other words",
        ),
        pytest.param(
            [text("A chart:"), IMAGE, text('{"a": 1}')],
            {"a": 1},
            {"a": 1, "content": ["A chart:", SHOWN]},
            id="structured, text and an image",
        ),
        pytest.param(
            [IMAGE],
            {"content": "x"},
            {"content": "x", "_content": [SHOWN]},
            id="structured with a field of that name",
        ),
        pytest.param(
            [text('{"result": 1}')], {"result": 1}, {"result": 1}, id="a result that nobody has wrapped"
        ),
        pytest.param(
            [{"type": "image", "mimeType": "image/png", "data": PNG}],
            None,
            {"type": "image", "mimeType": "image/png", "data": f"data:image/png;base64,{PNG}"},
            id="an image",
        ),
        pytest.param(
            [{"type": "audio", "mimeType": "audio/wav", "data": PNG}],
            None,
            {"type": "audio", "mimeType": "audio/wav", "data": f"data:audio/wav;base64,{PNG}"},
            id="sound",
        ),
        pytest.param(
            [{"type": "resource", "resource": {"uri": "file:///a", "blob": PNG}}],
            None,
            {"type": "resource", "uri": "file:///a", "data": f"data:application/octet-stream;base64,{PNG}"},
            id="a resource of bytes",
        ),
        pytest.param(
            [{"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "hi"}}],
            None,
            {"type": "resource", "uri": "note://1", "mimeType": "text/plain", "text": "hi"},
            id="a resource of text",
        ),
        pytest.param(
            [{"type": "resource_link", "uri": "file:///b", "name": "b"}],
            None,
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
            id="a link",
        ),
        pytest.param([], {"a": 1}, {"a": 1}, id="structured alone"),
        pytest.param("left out", {"a": 1}, {"a": 1}, id="structured, content left out"),
        pytest.param(None, {"a": 1}, {"a": 1}, id="structured, content null"),
        pytest.param(
            [text("see"), {"type": "video", "data": "…"}],
            None,
            ["see", '{"type": "video", "data": "…"}'],
            id="a part of a kind to come",
        ),
        pytest.param(
            [{"type": "chart"}], {"a": 1}, {"a": 1, "content": ['{"type": "chart"}']}, id="one beside"
        ),
    ],
)
async def test_what_a_result_gives(content: Any, structured: Any, expected: Any) -> None:
    async with opened() as source:
        parameters = {"content": content} | ({} if structured is None else {"structured": structured})
        assert await call(source, "give", **parameters) == expected
        assert await call(source, "give", **parameters, kind="complete") == expected
        assert await call(source, "text_only") == {"sum": 5}


@pytest.mark.parametrize(
    ("tool", "parameters", "kind", "happened", "word"),
    [
        pytest.param(
            "lie", {}, "output", "unknown", "'many' is not of type 'integer'", id="lies about its schema"
        ),
        pytest.param("malformed", {}, "output", "unknown", "not a valid result", id="no result of MCP"),
        pytest.param("give", {"content": "left out"}, "output", "unknown", "content", id="nothing at all"),
        pytest.param(
            "give", {"content": [{"type": "text"}]}, "output", "unknown", "text", id="a part that is broken"
        ),
        pytest.param("give", {"kind": "task"}, "output", "unknown", "resultType 'task'", id="a task instead"),
        pytest.param(
            "give", {"kind": "input_required"}, "output", "unknown", "no whole one", id="a question instead"
        ),
        pytest.param(
            "give",
            {"content": [{"type": "text", "text": "half"}], "kind": "partial"},
            "output",
            "unknown",
            "resultType 'partial'",
            id="a half",
        ),
        pytest.param(
            "give",
            {"content": [{"type": "image", "mimeType": "image/png", "data": "?"}]},
            "output",
            "unknown",
            "not base64",
            id="bytes that are none",
        ),
        pytest.param(
            "code", {"code": -32602, "message": "b is missing"}, "parameter", "no", "b is", id="-32602"
        ),
        *(
            pytest.param("code", {"code": -32602, "message": said}, "tool", None, said, id=f"-32602 {said}")
            for said in ("MCP error -32001: Request timed out", "socket hang up")
        ),
        pytest.param(
            "code",
            {"code": -32602, "message": "read_timeout is missing"},
            "parameter",
            "no",
            "read",
            id="a name",
        ),
        pytest.param(
            "code",
            {"code": -32602, "message": "Unknown tool: code"},
            "unknown_tool",
            "no",
            "code",
            id="unknown tool",
        ),
        pytest.param(
            "code",
            {"code": -32602, "message": "MCP error -32602: Tool code not found"},
            "unknown_tool",
            "no",
            "code",
            id="unknown tool, in other words",
        ),
        *(
            pytest.param("code", {"code": -32602, "message": said}, "parameter", "no", "found", id=said)
            for said in (
                "Customer 7 not found",
                "Power tool 7 not found",
                "Tool codex not found in the workshop",
            )
        ),
        *(
            pytest.param("code", {"code": code, "message": said}, "tool", None, said, id=f"{code} {said}")
            for code in (-32600, -32020, -32022)
            for said in ("the session of Monday is closed", "Session not found", "Session terminated")
        ),
        pytest.param(
            "code",
            {"code": -32000, "message": "no customer 5"},
            "tool",
            None,
            "no customer 5",
            id="of the server",
        ),
        pytest.param(
            "code",
            {"code": -32001, "message": "no customer 5"},
            "tool",
            None,
            "-32001",
            id="of the server, too",
        ),
        pytest.param(
            "code",
            {"code": -32000, "message": "no", "data": {"hint": "ask Ada"}},
            "tool",
            None,
            "ask Ada",
            id="with data",
        ),
        pytest.param(
            "code", {"code": -32603, "message": "oops"}, "tool", "unknown", "oops", id="internal error"
        ),
        pytest.param("code", {"code": -32099, "message": "no"}, "tool", None, "-32099", id="its own code"),
        pytest.param("fail", {"text": "no such file"}, "tool", None, "no such file", id="reported"),
        pytest.param(
            "fail", {"text": "Unknown tool: fail"}, "unknown_tool", "no", "fail", id="reported as unknown"
        ),
        pytest.param(
            "fail",
            {"text": "MCP error -32602: Input validation error"},
            "parameter",
            "no",
            "-32602",
            id="reported",
        ),
        pytest.param(
            "fail", {"text": "the upstream request timed out"}, "tool", None, "timed out", id="broke off"
        ),
    ],
)
async def test_an_error_says_whose_it_is_and_whether_it_happened(
    tool: str, parameters: dict[str, Any], kind: str, happened: str | None, word: str
) -> None:
    async with opened() as source:
        error = await failed(source, tool, **parameters)
        assert await call(source, "add", a=1, b=1) == {"sum": 2}
    assert (error.kind, error.happened) == (kind, happened)
    assert word in str(error)


@pytest.mark.parametrize(
    ("text", "happened"),
    [
        ("Seat 7 is temporarily blocked; choose another seat", "no"),
        ("Driver is busy, pick another", "no"),
        ("Database error: no such table", "no"),
        ("the upstream request timed out", "unknown"),
    ],
)
async def test_what_a_tool_reports_is_its_refusal_unless_it_tells_of_a_broken_connection(
    text: str, happened: str
) -> None:
    async with opened() as source:
        error = await failed(source, "fail", text=text)
    once = ToolSpec(id="fail", effect="once")
    assert classify(error, once).happened == happened
    assert classify(error, once.model_copy(update={"errors_are_clean": True})).happened == "no"
    assert classify(error, once.model_copy(update={"errors_are_clean": False})).happened == "unknown"


async def test_an_unknown_tool_names_the_nearest() -> None:
    async with opened() as source:
        error = await failed(source, "progres")
    assert "progress" in str(error)
    assert (error.kind, error.happened) == ("unknown_tool", "no")


async def test_the_key_and_the_trace_go_along() -> None:
    async with opened() as source:
        meta = (await call(source, "meta"))["meta"]
    assert meta["idempotencyKey"] == "the-key"
    assert meta["traceparent"].startswith("00-")


async def test_lines_that_are_no_messages_are_read_over() -> None:
    async with opened("--fault", "noise") as source:
        assert await call(source, "add", a=1, b=1) == {"sum": 2}


async def test_a_flood_of_notices_reaches_nobody_who_did_not_ask() -> None:
    async with opened() as source:
        seen: list[Progress] = []
        beside = asyncio.create_task(call(source, "add", a=1, b=1))
        assert await call(source, "flood", n=3000) == {"sent": 3000}
        assert await beside == {"sum": 2}
        assert await call(source, "flood", report=seen.append, n=100) == {"sent": 100}
    assert [each.progress for each in seen] == list(range(100))


@pytest.mark.parametrize("fault", ["", "id last"])
async def test_an_answer_that_is_too_large_ends_its_call_and_no_other(fault: str) -> None:
    async with opened("--fault", fault, max_result_bytes=100_000) as source:
        await source.tools()
        wait = asyncio.create_task(call(source, "wait"))
        error = await failed(source, "huge", size=5_000_000)
        assert len(await call(source, "huge", size=50_000)) == 50_000
        assert not wait.done()
        wait.cancel()
    assert (error.kind, error.happened) == ("output", "unknown")
    assert "100,000 bytes" in str(error)


async def test_changes_of_the_list_are_told_once_until_it_is_listed() -> None:
    async with opened() as source:
        told = asyncio.Event()
        count = []
        source.watch(lambda: (count.append(1), told.set()))  # type: ignore[func-returns-value]
        before = specs(await source.tools())
        await call(source, "change")
        async with asyncio.timeout(10):
            await told.wait()
        assert len(count) == 1
        after = specs(await source.tools())
        assert set(after) - set(before) == {"new"}


# ── people ────────────────────────────────────────────────────────────────────


def answering(*answers: Any) -> tuple[Any, list[Question]]:
    asked: list[Question] = []
    left = list(answers)

    async def ask(question: Question) -> Any:
        asked.append(question)
        return left.pop(0)

    return ask, asked


async def test_a_question_of_the_server_reaches_the_person_of_its_call() -> None:
    ask, asked = answering({"color": 7}, {"color": "red"})
    async with opened() as source:
        reply = await call(source, "ask", ask=ask)
    assert reply["result"] == {"action": "accept", "content": {"color": "red"}}
    assert asked[0].message == "Which color?"
    assert asked[0].json_schema["required"] == ["color"]
    assert "7 is not of type 'string'" in asked[1].message


async def test_in_a_task_a_question_goes_to_who_answers_for_it_or_is_declined(tmp_path: Path) -> None:
    plan = {"steps": [{"step_id": "paint", "tool": "ask", "parameters": {}}]}
    asked: list[tuple[str, str, str]] = []

    async def ask(task_id: str, step_id: str, question: Question) -> dict[str, Any]:
        asked.append((task_id, step_id, question.message))
        return {"color": "red"}

    found = []
    for person in (ask, None):
        async with (
            opened() as source,
            Replan(tools=[source], db=tmp_path / "replan.db", ask=person) as replan,
        ):
            result = await replan.run("Paint", plan=plan, evaluation="steps", timeout=20)
            found.append((result.task_id, result.output["result"]))
    (first, answered), (_, declined) = found
    assert answered == {"action": "accept", "content": {"color": "red"}}
    assert asked == [(first, "paint", "Which color?")]
    assert declined["action"] == "decline"


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        pytest.param((None,), "decline", id="nobody answers"),
        pytest.param(({}, {}, {}), "cancel", id="never a right answer"),
    ],
)
async def test_a_question_without_an_answer_is_declined(answers: Any, action: str) -> None:
    ask, _ = answering(*answers)
    async with opened() as source:
        assert (await call(source, "ask", ask=ask))["result"]["action"] == action
        assert (await call(source, "ask"))["result"]["action"] == "decline"


async def test_a_question_that_may_be_of_either_call_is_declined() -> None:
    ask, asked = answering({"color": "red"})
    async with opened() as source:
        await source.tools()
        wait = asyncio.create_task(call(source, "wait"))
        await call(source, "add", a=1, b=1)
        assert (await call(source, "ask", ask=ask))["result"]["action"] == "decline"
        wait.cancel()
    assert asked == []


async def test_a_question_is_taken_back_when_its_call_is_given_up() -> None:
    asked, over = asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    async with opened() as source:
        asking = asyncio.create_task(call(source, "ask", ask=ask))
        async with asyncio.timeout(10):
            await asked.wait()
            asking.cancel()
            await over.wait()


async def test_a_deadline_counts_from_the_start_of_the_call() -> None:
    async with opened("--fault", "hang at start") as source:
        with pytest.raises(ToolCallError, match="in the time that the call had") as caught:
            await source.call(ToolCall("add", {"a": 1, "b": 1}, "key", deadline_secs=0.2))
        assert (caught.value.kind, caught.value.happened) == ("unavailable", "no")
    async with opened() as source:
        await source.tools()
        with pytest.raises(ToolCallError, match="no answer within") as caught:
            await source.call(ToolCall("wait", {}, "key", deadline_secs=0.2))
        assert (caught.value.kind, caught.value.happened) == ("timeout", "unknown")


async def test_roots_are_told_and_sampling_is_refused(tmp_path: Path) -> None:
    server = StdioServer(sys.executable, (str(RAW),), roots=(tmp_path,))
    source = McpSource(server, name="raw")
    try:
        roots = await call(source, "roots")
        assert roots["result"]["roots"][0]["uri"] == tmp_path.as_uri()
        assert "not supported" in (await call(source, "sample"))["error"]["message"]
    finally:
        await source.aclose()
    async with opened() as without:
        assert "error" in await call(without, "roots")


# ── processes ─────────────────────────────────────────────────────────────────


async def test_a_server_that_ends_at_start_says_why_without_its_secrets() -> None:
    env = {"TOKEN": "s3cret-token"}
    source = McpSource(StdioServer(sys.executable, (str(RAW), "--fault", "die at start"), env), name="raw")
    with pytest.raises(
        ToolCallError, match=r"exit code 3; its stderr: .*the token \*\*\* is wrong"
    ) as caught:
        await source.tools()
    await source.aclose()
    assert (caught.value.kind, caught.value.happened) == ("unavailable", "no")


async def test_what_a_tool_says_is_told_without_the_keys_of_its_server() -> None:
    env = {"SERVICE_API_KEY": "sk-top-s3cret", "DATA": "/data/files"}
    source = McpSource(StdioServer(sys.executable, (str(RAW),), env), name="raw")
    reported = await failed(source, "fail", text="no /data/files for sk-top-s3cret")
    refused = await failed(source, "code", code=-32602, message="sk-top-s3cret is no key")
    await source.aclose()
    assert str(reported) == "no /data/files for ***"
    assert (reported.kind, refused.kind) == ("tool", "parameter")
    assert "s3cret" not in str(refused)


async def test_a_server_that_hangs_at_start_is_given_up_and_ended() -> None:
    async with opened("--fault", "hang at start", start_timeout_secs=0.5) as source:
        with pytest.raises(ToolCallError, match=r"not ready within 0\.5 seconds; it is running"):
            await source.tools()


async def test_a_program_that_is_not_there() -> None:
    source = McpSource(StdioServer("no-such-program-anywhere"))
    with pytest.raises(ToolCallError, match="'no-such-program-anywhere' cannot be started: there is no such"):
        await source.tools()
    await source.aclose()


async def test_a_server_that_keeps_failing_is_left_alone_for_a_while() -> None:
    now = [0.0]
    breaker = Breaker(threshold=2, cool_down_secs=10, now=lambda: now[0])
    source = McpSource(StdioServer("no-such-program-anywhere"), breaker=breaker)
    for _ in range(2):
        with pytest.raises(ToolCallError, match="cannot be started"):
            await source.tools()
    with pytest.raises(ToolCallError, match="left alone for 10 s") as caught:
        await source.tools()
    assert caught.value.retry_after == 10
    assert classify(caught.value).transient
    now[0] = 11
    with pytest.raises(ToolCallError, match="cannot be started"):
        await source.tools()
    await source.aclose()


@pytest.mark.parametrize("code", [-32600, -32000, -32001, -32020, -32022, -32603, 404])
@pytest.mark.parametrize("said", ["Session not found", "the session has expired, log in again", "try again"])
async def test_no_words_of_an_answer_make_a_call_be_made_again(code: int, said: str) -> None:
    async with opened() as source:
        before = await call(source, "pid")
        spec = next(tool for tool in await source.tools() if tool.id == "code")
        error = await failed(source, "code", code=code, message=said)
        assert not may_retry(classify(error, spec), spec)
        assert await call(source, "pid") == before


async def test_an_error_with_the_code_of_a_closed_connection_closes_none() -> None:
    async with opened() as source:
        before = await call(source, "pid")
        beside = asyncio.create_task(call(source, "meet", n=2))
        error = await failed(source, "code", code=-32000, message="over the limit")
        assert (error.kind, error.happened) == ("tool", None)
        assert "over the limit" in str(error)
        assert await call(source, "pid") == before
        assert await call(source, "meet", n=2) is True
        assert await beside is True


async def test_a_server_that_hears_no_more_is_started_anew() -> None:
    async with opened("--fault", "deaf") as source:
        first = await call(source, "pid")
        request = ToolCall("pid", {}, "the-key", deadline_secs=1.0)
        for _ in range(5):  # the first may be written a moment before the server stops to listen
            (found,) = await asyncio.gather(source.call(request), return_exceptions=True)
            if not isinstance(found, ToolCallError):
                break
            assert found.kind in ("connection_lost", "timeout")
    assert isinstance(found, dict)
    assert found != first


async def test_an_answer_that_cannot_be_understood_is_not_taken_for_undone() -> None:
    async with opened("--fault", "deep") as source:
        error = await failed(source, "text_only")
    assert (error.kind, error.happened) == ("output", "unknown")
    assert "the answer of 'text_only' cannot be understood: RecursionError" in str(error)


async def test_a_lost_call_is_told_and_not_made_again() -> None:
    source = raw()
    error = await failed(source, "die")
    assert (error.kind, error.happened) == ("connection_lost", "unknown")
    assert "SIGKILL" in str(error)
    assert "out of memory" in str(error)
    assert await call(source, "add", a=1, b=1) == {"sum": 2}
    await source.aclose()


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


linux_only = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux tells when a process ends that is not a child (pidfd)"
)


def _ends(pid: int) -> None:
    """Returns when it has ended: it has been killed, and when the kernel is done with it is its own affair."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        ready, _, _ = select.select([handle], [], [], 10)
        os.close(handle)
        assert ready


@linux_only
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
async def test_what_a_server_has_started_ends_with_it(killed: bool) -> None:
    async with opened() as source:
        pids = await call(source, "child")
        assert _runs(pids["pid"])
        if killed:
            wait = asyncio.create_task(call(source, "wait"))
            await asyncio.sleep(0)
            os.kill(pids["server"], signal.SIGKILL)
            with pytest.raises(ToolCallError):
                await wait
    assert not _runs(pids["server"])
    await asyncio.to_thread(_ends, pids["pid"])


@linux_only
async def test_a_server_is_told_by_the_end_of_its_stdin_when_replan_is_killed() -> None:
    code = (
        "import asyncio, sys\nfrom replan.ports import ToolCall\nfrom replan.tools.mcp import McpSource, StdioServer\n"
        "async def main():\n"
        "    source = McpSource(StdioServer(sys.executable, (sys.argv[1],)))\n"
        "    print((await source.call(ToolCall('pid', {}, 'key')))['pid'], flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    ours = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(RAW), stdout=asyncio.subprocess.PIPE
    )
    assert ours.stdout is not None
    server = int(await ours.stdout.readline())
    assert _runs(server)
    ours.kill()
    await ours.wait()
    await asyncio.to_thread(_ends, server)


async def test_closing_while_it_starts_leaves_no_process() -> None:
    source = raw("hang at start")
    listing = asyncio.create_task(source.tools())
    await asyncio.sleep(0)
    await source.aclose()
    with pytest.raises(ToolCallError, match="closed"):
        await listing


async def test_a_source_that_was_closed_can_be_used_again() -> None:
    async with opened() as source:
        for _ in range(2):
            assert await call(source, "add", a=1, b=1) == {"sum": 2}
            await source.aclose()


async def test_a_caller_who_leaves_while_it_starts_does_not_stop_the_others() -> None:
    async with opened() as source:
        first, second = (asyncio.create_task(call(source, "add", a=1, b=1)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == {"sum": 2}


async def test_the_environment_is_handed_on_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_MINE", "xyz")
    code = "import os,sys; sys.exit('A_SECRET_OF_MINE' in os.environ or os.environ['GIVEN'] != 'yes')"
    source = McpSource(StdioServer(sys.executable, ("-c", code), {"GIVEN": "yes"}))
    with pytest.raises(ToolCallError, match="exit code 0"):
        await source.tools()
    await source.aclose()


async def test_in_a_catalog_a_server_that_is_down_stops_nobody() -> None:
    down = McpSource(StdioServer("no-such-program-anywhere"), name="down")
    catalog = Catalog([down, raw()])
    await catalog.open()
    assert "add" in {spec.id for spec in catalog.specs()}
    assert any(
        problem.source == "down" and "no such program" in problem.message for problem in catalog.problems
    )
    await catalog.aclose()


async def test_tools_that_may_not_be_used_are_not_there() -> None:
    async with opened(allow=["add", "pid"], deny=["pid"], tools={"pid": "reads"}) as source:
        assert [spec.id for spec in await source.tools()] == ["add"]
        assert source.problems() == ()
        assert (await failed(source, "pid")).kind == "unknown_tool"
        assert await call(source, "add", a=1, b=2) == {"sum": 3}


async def test_in_a_task_large_bytes_are_a_file_where_they_stand(tmp_path: Path) -> None:
    @tool(effect="reads")
    def measured(picture: File, same: str) -> list[int]:
        return [sum(map(len, picture)), len(same)]

    large = bytes(range(256)) * 4200
    blocks = [
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(large).decode()},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": base64.b64encode(large[:9]).decode()}},
    ]
    picture = "${draw.output[0].data}"
    steps = [
        {"step_id": "draw", "tool": "give", "parameters": {"content": blocks}},
        {
            "step_id": "measure",
            "tool": "measured",
            "parameters": {"picture": picture, "same": picture},
            "dependencies": ["draw"],
        },
    ]
    async with opened() as source, Replan(tools=[source, measured], db=tmp_path / "replan.db") as replan:
        result = await replan.run("Draw", plan={"steps": steps}, evaluation="steps", task_id="t")
        assert result.output == [len(large), len("data:image/png;base64,") + len(blocks[0]["data"])]
        image, small = await replan.output("t", "draw")
        assert image["data"].startswith("artifact:bin_")
        assert small["data"].startswith("data:application/octet-stream;base64,")
        pieces = replan.output_pieces("t", "draw", path="[0].data")
        assert b"".join([piece async for piece in pieces]) == large


async def test_in_a_task_an_image_is_kept_apart_and_progress_is_told(tmp_path: Path) -> None:
    data = base64.b64encode(bytes(range(256)) * 8).decode()
    image = {"type": "image", "mimeType": "image/png", "data": data}
    steps = [
        {"step_id": "draw", "tool": "give", "parameters": {"content": [image]}},
        {"step_id": "count", "tool": "progress", "parameters": {}},
    ]
    async with opened() as source, Replan(tools=[source], db=tmp_path / "replan.db") as replan:
        task = await replan.submit("Draw", plan={"steps": steps}, evaluation="steps")
        seen = [record.event async for record in replan.watch(task, ephemeral=True)]
        whole = await replan.output(task, "draw")
        stored = [record.event.model_dump_json() for record in await replan.history(task)]
    assert whole["data"] == f"data:image/png;base64,{data}"
    (drawn,) = [text for text in stored if '"call_completed"' in text and "(2,048 bytes)" in text]
    assert data not in drawn
    told = [event.message for event in seen if event.type == "step_progress"]
    assert told == ["half", "done"]


@pytest.mark.parametrize(
    "text",
    [
        "Input validation error: row 4 was refused; rows 1 to 3 were written",
        "MCP error -32602: the third of five was refused",
        "Unknown tool: fail",
        "Error executing tool fail: 1 validation error for Row",
    ],
)
async def test_the_words_of_an_error_clear_no_doubt_about_a_tool_that_may_fail_half_way(text: str) -> None:
    async with opened(tools={"fail": {"errors_are_clean": False}}) as source:
        spec = specs(await source.tools())["fail"]
        fault = classify(await failed(source, "fail", text=text), spec)
    assert in_doubt(fault, spec)


async def test_words_of_a_lost_connection_raise_a_doubt_whatever_the_error_begins_with() -> None:
    async with opened() as source:
        spec = specs(await source.tools())["fail"]
        text = "Input validation error: the connection was reset while the order was sent"
        assert in_doubt(classify(await failed(source, "fail", text=text), spec), spec)
        text = "Input validation error: 'timeout' is a required property"
        assert not in_doubt(classify(await failed(source, "fail", text=text), spec), spec)


@pytest.mark.parametrize("code", [-32602, -32601, -32600, -32000, -32603])
@pytest.mark.parametrize("said", ["row 4 is no row", "Unknown tool: code"])
async def test_nor_does_the_code_of_an_error(code: int, said: str) -> None:
    async with opened(tools={"code": {"errors_are_clean": False}}) as source:
        spec = specs(await source.tools())["code"]
        fault = classify(await failed(source, "code", code=code, message=said), spec)
    assert in_doubt(fault, spec)
    assert said in fault.message
