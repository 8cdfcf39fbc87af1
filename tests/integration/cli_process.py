"""The command as a real process, in a folder and home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import warm_command

COMMAND = [sys.executable, "-m", "replan.cli"]

TOOLS = '''
import os, subprocess, sys


def count(text: str) -> dict:
    """Count the letters of a text."""
    print("a print of the tool")
    os.write(1, b"a write of the tool\\n")
    subprocess.run([sys.executable, "-IS", "-c", "print('a print of a child')"], check=True)
    return {"text": text, "letters": len(text)}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(why: str) -> str:
    """Fail with a reason."""
    raise ValueError(why)


async def wait_for_ever() -> str:
    """Wait until it is cancelled."""
    import asyncio

    await asyncio.Event().wait()
    return "never"


async def stubborn() -> str:
    """Hold up everything when it is cancelled."""
    import asyncio, time

    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        sys.stderr.write("holding on\\n")
        time.sleep(60)
    return "never"
'''

PLAN: dict[str, Any] = {
    "task_description": "数一数字母 🚀",
    "steps": [
        {"step_id": "one", "tool": "count", "parameters": {"text": "naïve"}},
        {"step_id": "two", "tool": "count", "parameters": {"text": "北京"}},
        {
            "step_id": "sum",
            "tool": "add",
            "parameters": {"a": "${one.output.letters}", "b": "${two.output.letters}"},
        },
    ],
}

BY_STEPS = ("run", "--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py")
"""Runs `plan.json` without any model."""


def environment(home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """As little as a process needs, with nothing of the machine's user."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "REPLAN_MODELS_DIR": str(home / "models"),
        "APP_LLM_MAX_RETRIES": "0",
        **(env or {}),
    }


def folder(path: Path, plan: Mapping[str, Any] | None = None) -> Path:
    """A working folder with `tools.py` and `plan.json`."""
    (path / "tools.py").write_text(TOOLS, encoding="utf-8")
    (path / "plan.json").write_text(json.dumps(plan or PLAN, ensure_ascii=False), encoding="utf-8")
    return path


def replan(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in a process that starts warm; stdout and stderr apart, as UTF-8."""
    return warm_command.run(args, cwd, environment(cwd, env), stdin, timeout=120)


@contextmanager
def going_on(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[warm_command.Process]:
    """The command while the test does other things. It does not outlive the test."""
    process = warm_command.Process(args, cwd, environment(cwd, env))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def replan_from_cold(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """The same in a process that imports everything itself."""
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env=environment(cwd, env),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def one_step(tool: str, **parameters: Any) -> dict[str, Any]:
    return {"steps": [{"step_id": "only", "tool": tool, "parameters": parameters}]}
