"""`replan serve` in a process of its own, with the tools of plans that are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.page.made_up import TOOLS, plan_of

_TOOLS = """
import asyncio
from random import Random
from replan import tool

SECS = {secs}

async def work(number):
    await asyncio.sleep(SECS * (0.5 + Random(number).random()))
    return {{"number": number}}
"""
_TOOL = '''
@tool(effect="reads", volatile=True)
async def {name}(number: int) -> dict:
    """Made up."""
    return await work(number)
'''
EVENTS_A_STEP = 5
SLOTS = 8


@contextmanager
def service(events_a_second: float) -> Iterator[str]:
    """Its address. Its tools take so long that a task of many steps tells about so many events a second."""
    secs = SLOTS * EVENTS_A_STEP / events_a_second
    with tempfile.TemporaryDirectory() as folder:
        text = _TOOLS.format(secs=secs) + "".join(_TOOL.format(name=name) for name in TOOLS)
        (Path(folder) / "tools.py").write_text(text)
        (Path(folder) / "config.toml").write_text(f"[orchestrator]\nparallel_max_concurrent = {SLOTS}\n")
        command = [
            sys.executable,
            "-m",
            "replan.cli",
            "serve",
            "--port",
            "0",
            "--json",
            "--tools",
            "tools.py",
            "--db",
            "sqlite:///log.db",
        ]
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "HOME": folder},
        )
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["urls"][0]
        finally:
            process.terminate()
            process.wait(30)


def hand_in(url: str, steps: int) -> str:
    """A task of so many steps; its id."""
    plan = [{name: value for name, value in step.items() if name != "for_each"} for step in plan_of(steps)]
    body = {
        "task_description": f"Reconcile {steps} invoices with the ledger",
        "options": {"plan": {"steps": plan}, "evaluation": "steps"},
    }
    request = urllib.request.Request(
        f"{url}/api/v1/tasks", json.dumps(body).encode(), {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    task_id: str = found["task_id"]
    return task_id


def cancel(url: str, task_id: str) -> None:
    request = urllib.request.Request(
        f"{url}/api/v1/tasks/{task_id}/cancel", b"{}", {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60):
        pass


def events(url: str, task_id: str) -> int:
    """How many events its log has."""
    with urllib.request.urlopen(f"{url}/api/v1/tasks/{task_id}", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return int(found["last_seq"])
