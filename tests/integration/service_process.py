"""`replan serve` as a real process, and a client that knows nothing but HTTP."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import warm_command
from cli_process import environment

TOOLS = '''
"""Tools for the tests of the service."""

import asyncio
import os
from pathlib import Path

from replan import tool

HERE = Path(__file__).parent


@tool(effect="reads")
def weather(city: str) -> dict:
    """The weather of a city."""
    return {"city": city, "degrees": len(city)}


@tool(effect="once", requires_approval=True)
def pay(amount: int) -> dict:
    """Pay an amount."""
    with open(HERE / "paid.txt", "a") as book:
        book.write(f"{amount}\\n")
    return {"paid": amount}


@tool(effect="reads")
def text(size: int) -> str:
    """A text so long."""
    return "x" * size


@tool(effect="reads")
async def until(name: str) -> str:
    """Wait for a file."""
    while not (HERE / name).exists():
        await asyncio.sleep(0.005)
    return name


@tool(effect="reads")
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)
'''
READY_SECS = 60.0


class Service:
    """A service that runs."""

    def __init__(self, process: warm_command.Process, url: str, folder: Path) -> None:
        self.process = process
        self.url = url
        self.folder = folder
        self.api = f"{url}/api/v1"

    def client(self, **settings: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.api, timeout=30.0, trust_env=False, **settings)

    def let_go(self, name: str = "go") -> None:
        """What `until` waits for."""
        (self.folder / name).touch()

    def end(self, number: int = signal.SIGTERM) -> str:
        """Tell it to end, and wait for that; what it has written to stderr."""
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=60)
        return told


@contextmanager
def serving(
    folder: Path, *args: str, env: Mapping[str, str] | None = None, tools: str = TOOLS, port: int = 0
) -> Iterator[Service]:
    """The service with these tools, on a database in that folder. Killed at the end, if it lives then."""
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    arguments = (
        "serve", "--port", str(port), "--grpc-port", "0", "--tools", "tools.py", "--db", "sqlite:///tasks.db", "--evaluation", "steps", "--json", *args,
    )  # fmt: skip
    process = warm_command.Process(arguments, folder, environment(folder, env))
    try:
        said = process.stdout.readline()
        assert said, process.stderr.read()
        yield Service(process, json.loads(said)["urls"][0], folder)
    finally:
        if process.returncode is None:
            process.kill()
            process.communicate()


def plan(*steps: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The body of a task with that plan, which needs no model."""
    return {"task_description": "A task of a test", "options": {"plan": {"steps": list(steps)}, **options}}


def step(step_id: str, tool: str, *dependencies: str, **parameters: Any) -> dict[str, Any]:
    found = {"step_id": step_id, "tool": tool, "parameters": parameters}
    return {**found, "dependencies": list(dependencies)} if dependencies else found


def events_of(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events of a stream, each with `id` (None where it has none), `event` and `data`."""
    event: dict[str, Any] = {"id": None}
    for line in lines:
        if not line:
            if "data" in event:
                yield event
            event = {"id": None}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = json.loads(value) if name == "data" else int(value) if name == "id" else value
