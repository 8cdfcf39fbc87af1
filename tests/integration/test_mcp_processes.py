"""The MCP server in a process of its own, over both transports, with clients that know nothing but the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fastapi")

import httpx2
import mcp_types as types
import warm_command
from cli_process import environment
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_world import ERAS, accept
from service_process import TOOLS, Service, serving

pytestmark = pytest.mark.anyio
SECS = 60.0
PRINTS = (
    TOOLS
    + '''

@tool(effect="once")
async def pay_slowly(amount: int) -> str:
    """Pay, which takes a moment."""
    await asyncio.sleep(0.6)
    with open(HERE / "slowly.txt", "a") as book:
        book.write(f"{amount}\\n")
    return "paid"


@tool(effect="reads")
def loud() -> str:
    """Write to everything."""
    import subprocess
    import sys

    print("a print of the tool")
    os.write(1, b"a write of the tool\\n")
    subprocess.run([sys.executable, "-IS", "-c", "print('a print of a child')"], check=True)
    return "said"
'''
)
eras = pytest.mark.parametrize("era", ERAS)


def wanted(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"task": "do it", "options": {"plan": {"steps": list(steps)}, "evaluation": "steps"}, **more}


def step(tool: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": "a", "tool": tool, "parameters": parameters}


async def yes(ctx: Any, params: Any) -> types.ElicitResult:
    assert '"amount": 7' in params.message
    return accept(approve=True)


def given(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    return dict(result.structured_content)


# ── started by the client ──


@pytest.fixture
def started(tmp_path: Path) -> StdioServerParameters:
    (tmp_path / "tools.py").write_text(PRINTS, encoding="utf-8")
    arguments = [
        "-m",
        "replan.cli",
        "mcp",
        "--tools",
        "tools.py",
        "--db",
        "sqlite:///tasks.db",
        "--log-level",
        "error",
    ]
    return StdioServerParameters(
        command=sys.executable, args=arguments, cwd=tmp_path, env=dict(environment(tmp_path, {}))
    )


async def test_a_client_that_starts_the_server_runs_a_task_and_is_asked(
    started: StdioServerParameters, tmp_path: Path
) -> None:
    progress: list[str | None] = []

    async def tell(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with asyncio.timeout(SECS), Client(started, elicitation_callback=yes) as client:
        paid = given(
            await client.call_tool("run_task", wanted(step("pay", amount=7)), progress_callback=tell)
        )
        loud = given(await client.call_tool("run_task", wanted(step("loud"))))

    assert paid["final_output"] == {"paid": 7}
    assert (tmp_path / "paid.txt").read_text() == "7\n"
    assert any("a person is asked" in str(one) for one in progress)
    assert loud["final_output"] == "said", "what tools print is no message of the protocol"


async def test_a_call_that_runs_when_the_client_leaves_comes_to_its_end_and_the_task_goes_on_later(
    started: StdioServerParameters, tmp_path: Path
) -> None:
    steps = [
        step("pay_slowly", amount=7),
        {"step_id": "b", "tool": "loud", "parameters": {}, "dependencies": ["a"]},
    ]

    async with asyncio.timeout(SECS):
        async with Client(started) as client:
            made = given(await client.call_tool("submit_task", wanted(*steps)))
            task = {"task_id": made["task_id"]}
            events = given(await client.call_tool("get_events", {**task, "limit": 100}))["items"]
            while not any(event["type"] == "call_started" for event in events):
                events = given(await client.call_tool("get_events", {**task, "limit": 100}))["items"]
        async with Client(started) as client:
            stood = given(await client.call_tool("get_task", task))
            await client.call_tool("resume", task)
            done = given(await client.call_tool("wait_task", task))

    assert (stood["status"], stood["done_steps"]) == ("executing", 1)
    assert done["final_output"] == "said"
    assert (tmp_path / "slowly.txt").read_text() == "7\n", "its effect was never in doubt"


def test_it_speaks_on_stdout_alone_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(PRINTS, encoding="utf-8")
    arguments = ("mcp", "--tools", "tools.py", "--db", "sqlite:///tasks.db", "--no-approve-tool")
    process = subprocess.Popen(
        [sys.executable, "-m", "replan.cli", *arguments],
        cwd=tmp_path,
        env=environment(tmp_path, {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        hello = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        }  # fmt: skip
        wrong = ("no message\n", "\n", '{"jsonrpc": "2.0"}\n', "[1\n")
        process.stdin.write("".join(wrong) + json.dumps(hello) + "\n")
        process.stdin.flush()
        told = [json.loads(process.stdout.readline()) for _ in range(3)]
        answer = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECS)
    finally:
        if process.returncode is None:
            process.kill()

    assert [(one["id"], one["error"]["code"]) for one in told] == [
        (None, -32700),
        (None, -32600),
        (None, -32700),
    ]
    assert answer["result"]["serverInfo"]["name"] == "replan"
    assert "never decide in their place" in answer["result"]["instructions"]
    assert (out, process.returncode) == ("", 0)


# ── mounted in the service ──


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("mcp"), tools=PRINTS) as made:
        yield made


@eras
async def test_a_client_of_the_service_runs_a_task_and_is_asked(service: Service, era: str) -> None:
    async with (
        asyncio.timeout(SECS),
        Client(f"{service.url}/mcp", mode=era, elicitation_callback=yes) as client,
    ):
        paid = given(await client.call_tool("run_task", wanted(step("pay", amount=7))))
    with service.client() as http:
        shown = http.get(f"/tasks/{paid['task_id']}").json()

    assert paid["final_output"] == {"paid": 7}
    assert shown["status"] == "succeeded", "it is a task like any other"


async def test_a_client_of_another_project_runs_a_task(service: Service) -> None:
    agents = pytest.importorskip("agents.mcp")
    server = agents.MCPServerStreamableHttp(
        params={"url": f"{service.url}/mcp"}, client_session_timeout_seconds=30
    )
    async with asyncio.timeout(SECS), server:
        names = {tool.name for tool in await server.list_tools()}
        result = await server.call_tool("run_task", wanted(step("weather", city="Rome")))

    assert {"run_task", "wait_task"} <= names
    assert json.loads(result.content[0].text)["final_output"] == {"city": "Rome", "degrees": 4}


async def test_a_page_of_another_name_does_not_reach_a_service_that_asks_nobody(service: Service) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    async with httpx2.AsyncClient(trust_env=False) as client:
        other = await client.post(
            f"{service.url}/mcp", json=body, headers={**headers, "host": "evil.example"}
        )
        page = await client.post(
            f"{service.url}/mcp", json=body, headers={**headers, "origin": "http://evil.example"}
        )

    assert 400 <= other.status_code < 500
    assert 400 <= page.status_code < 500


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str]]]:
    """A service that asks for keys, and two of them."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = {}
    for name, scopes in (("ann", ["run", "read", "approve"]), ("eve", ["read"])):
        arguments = [
            "keys",
            "create",
            "--name",
            name,
            "--tenant",
            name,
            "--json",
            "--db",
            "sqlite:///tasks.db",
        ]
        for scope in scopes:
            arguments += ["--scope", scope]
        process = warm_command.Process(tuple(arguments), folder, environment(folder, {}))
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        keys[name] = json.loads(out)["key"]
    with serving(folder, tools=PRINTS, env={"APP_SERVER_AUTH": "keys"}) as made:
        yield made, keys


@contextlib.asynccontextmanager
async def client_of(service: Service, key: str, era: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(f"{service.url}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


@eras
async def test_a_key_says_who_calls_and_what_it_may(
    guarded: tuple[Service, dict[str, str]], era: str
) -> None:
    service, keys = guarded
    async with asyncio.timeout(SECS):
        async with client_of(service, keys["ann"], era) as ann:
            done = given(await ann.call_tool("run_task", wanted(step("weather", city="Oslo"))))
            events = given(await ann.call_tool("get_events", {"task_id": done["task_id"], "limit": 1}))
        async with client_of(service, keys["eve"], era) as eve:
            names = {tool.name for tool in (await eve.list_tools()).tools}
            other = await eve.call_tool("get_task", {"task_id": done["task_id"]})

    assert events["items"][0]["data"]["by"] == "key:ann"
    assert "run_task" not in names
    assert other.is_error, "a task of another tenant is not there"


async def test_without_a_key_nothing_is_told(guarded: tuple[Service, dict[str, str]]) -> None:
    service, _ = guarded
    async with httpx2.AsyncClient(base_url=service.url, trust_env=False) as client:
        for method in ("GET", "POST", "DELETE"):
            answer = await client.request(method, "/mcp", json={} if method == "POST" else None)
            assert answer.status_code == 401, method
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"


async def test_the_session_of_another_key_is_not_there(guarded: tuple[Service, dict[str, str]]) -> None:
    service, keys = guarded
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    accepts = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(base_url=service.url, trust_env=False, headers=accepts) as client:
        opened = await client.post("/mcp", json=hello, headers={"x-api-key": keys["ann"]})
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        stolen = await client.post("/mcp", json=ping, headers={**session, "x-api-key": keys["eve"]})
        own = await client.post("/mcp", json=ping, headers={**session, "x-api-key": keys["ann"]})

    assert (opened.status_code, stolen.status_code, own.status_code) == (200, 404, 200)


@pytest.fixture
async def ending(tmp_path: Path) -> AsyncIterator[Service]:
    with serving(tmp_path, "--grace", "0") as made:
        yield made


@eras
async def test_a_service_that_ends_answers_whoever_waits(ending: Service, era: str) -> None:
    async with asyncio.timeout(SECS):
        async with Client(f"{ending.url}/mcp", mode=era) as client:
            await client.list_tools()
            begun = asyncio.Event()

            async def tell(*progress: Any) -> None:
                begun.set()

            call = asyncio.create_task(
                client.call_tool("run_task", wanted(step("until", name="go")), progress_callback=tell)
            )
            await begun.wait()
            ending.process.send_signal(signal.SIGTERM)
            left = given(await call)
            told = await asyncio.to_thread(ending.process.communicate, timeout=60)

    assert left["ended"] is False
    assert "goes on when it is back" in left["next"]
    assert ending.process.returncode == 0
    assert "Traceback" not in told[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_although_the_client_holds_its_stream_open(tmp_path: Path, number: int) -> None:
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "replan.cli", "mcp", "--db", "sqlite:///tasks.db"],
        cwd=tmp_path, env=environment(tmp_path, None), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    assert b"serverInfo" in process.stdout.readline()
    process.send_signal(number)
    assert process.wait(60) == 0
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()
