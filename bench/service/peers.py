"""The servers of peers under the same load, in an environment of their own: LangGraph's API server, and the Agent Development Kit's.

`python -m bench.service --setup` installs them into .venv-servers/. Both run offline, without a model, and keep everything in memory, where
Replan has it on disk. What they are given is as like Replan's task as they have it: three steps, or three messages, that do nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.service.http import Address, connect, get, post
from bench.service.served import Server, wait_for
from bench.service.watching import Reader, stream

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-servers"
_START_SECS = 90.0
_GRAPH = """
import asyncio
import time
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    n: int
    secs: float
    steps: int
    ts: float
    text: str


async def work(state):
    if state.get("secs"):
        await asyncio.sleep(state["secs"])
    return {"n": state.get("n", 0) + 1, "ts": time.time(), "text": "x" * 100}


made = StateGraph(State)
made.add_node("work", work)
made.add_edge(START, "work")
made.add_conditional_edges("work", lambda state: "work" if state["n"] < state["steps"] else END)
graph = made.compile()
"""
_SERVE = """
import sys

from langgraph_api.cli import run_server

run_server(port=int(sys.argv[1]), graphs={"steps": "./graph.py:graph"}, n_jobs_per_worker=10, open_browser=False)
"""
_AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Scripted(BaseAgent):
    async def _run_async_impl(self, ctx):
        for _ in range(3):
            part = types.Part(text="x" * 100)
            yield Event(invocation_id=ctx.invocation_id, author=self.name, content=types.Content(role="model", parts=[part]))


root_agent = Scripted(name="scripted")
"""


def set_up() -> None:
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    pip = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "-r", str(ROOT / "locks/bench-servers.txt")], check=True
    )


def there() -> bool:
    return (VENV / "bin/adk").exists()


@contextmanager
def langgraph() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "graph.py").write_text(_GRAPH)
        (Path(folder) / "serve.py").write_text(_SERVE)
        with _running(lambda port: [VENV / "bin/python", "serve.py", str(port)], folder) as server:
            yield server


@contextmanager
def adk() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "agents" / "scripted"
        agent.mkdir(parents=True)
        (agent / "__init__.py").write_text("from . import agent\n")
        (agent / "agent.py").write_text(_AGENT)
        memory = ["--session_service_uri", "memory://", "--artifact_service_uri", "memory://"]
        with _running(
            lambda port: [VENV / "bin/adk", "api_server", "--port", str(port), *memory, "agents"], folder
        ) as server:
            yield server


@contextmanager
def _running(command: Any, folder: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = Address("127.0.0.1", free.getsockname()[1])
    environment = {
        **os.environ,
        "HOME": folder,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_NO_VERSION_CHECK": "1",
    }
    process = subprocess.Popen(
        command(at.port), cwd=folder, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip
    try:
        wait_for(at, _START_SECS)
        yield Server(at, None, process)
    finally:
        process.kill()
        process.wait()


# ── LangGraph's server ──


def langgraph_run(
    at: Address, *, thread: str = "", steps: int = 3, secs: float = 0.0, path: str = ""
) -> bytes:
    body = {
        "assistant_id": "steps",
        "input": {"n": 0, "steps": steps, "secs": secs},
        "stream_mode": ["values"],
    }
    if thread:
        body["stream_resumable"] = True
    return post(path or (f"/threads/{thread}/runs" if thread else "/runs"), json.dumps(body).encode(), at)


async def langgraph_started(at: Address, steps: int = 3, secs: float = 0.0) -> str:
    """The address of a run on a thread of its own."""
    thread = (await called(at, post("/threads", b"{}", at)))["thread_id"]
    run = (await called(at, langgraph_run(at, thread=thread, steps=steps, secs=secs)))["run_id"]
    return f"/threads/{thread}/runs/{run}"


async def langgraph_ended(at: Address, path: str) -> None:
    until = time.monotonic() + 60
    while (await called(at, get(path, at)))["status"] not in ("success", "error"):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


async def langgraph_first(at: Address) -> Reader:
    return await _values(at, langgraph_run(at, path="/runs/stream"), timed=False)


async def langgraph_watch(at: Address, path: str, *, timed: bool) -> Reader:
    return await _values(at, get(f"{path}/stream", at, "text/event-stream"), timed=timed)


async def _values(at: Address, request: bytes, *, timed: bool) -> Reader:
    return await stream(
        at, request, timed=timed, mark=b"event: values", gap=b"\r\n\r\n", ends=(b"\r\n0\r\n\r\n",)
    )


# ── the Agent Development Kit's ──

ADK_SESSIONS = "/apps/scripted/users/u/sessions"


async def adk_first(at: Address) -> Reader:
    session = (await called(at, post(ADK_SESSIONS, b"{}", at)))["id"]
    message = {"role": "user", "parts": [{"text": "x"}]}
    body = {
        "app_name": "scripted",
        "user_id": "u",
        "session_id": session,
        "new_message": message,
        "streaming": True,
    }
    request = post("/run_sse", json.dumps(body).encode(), at)
    return await stream(at, request, timed=False, mark=b"data: ", ends=(b"\r\n0\r\n\r\n",))


async def called(at: Address, request: bytes) -> Any:
    connection = await connect(at)
    status, body = await connection.call(request)
    assert status in (200, 201, 202), (status, body)
    assert connection.transport is not None
    connection.transport.close()
    return json.loads(body)
