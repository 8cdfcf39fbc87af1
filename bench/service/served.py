"""`replan serve`, and the bare servers, each as a process of its own."""

from __future__ import annotations

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
from typing import Any, NamedTuple

from bench.service.http import Address

TOOLS = """
import asyncio
from replan import tool

@tool(effect="reads", volatile=True)
def nothing(n: int) -> str:
    return "x" * 100

@tool(effect="reads", volatile=True)
async def wait(n: int, secs: float) -> str:
    await asyncio.sleep(secs)
    return "x" * 100
"""
_TICK = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    at: Address
    grpc: Address | None
    process: subprocess.Popen[str]

    @property
    def cpu_secs(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    @property
    def kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def chained(steps: int, secs: float = 0.0) -> dict[str, Any]:
    """A task with a plan of so many steps, one after the other."""
    made = [
        {
            "step_id": f"s{n}",
            "tool": "wait" if secs else "nothing",
            "parameters": {"n": n, **({"secs": secs} if secs else {})},
            "dependencies": [f"s{n - 1}"] if n else [],
        }
        for n in range(steps)
    ]
    return {"task_description": "measure", "options": {"plan": {"steps": made}, "evaluation": "steps"}}


@contextmanager
def replan(places: int = 10) -> Iterator[Server]:
    """`places`: so many tasks are driven at a time."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tools.py").write_text(TOOLS)
        (Path(folder) / "config.toml").write_text(
            f"[orchestrator]\nmax_concurrent_tasks = {places}\n[server]\nmax_queued_tasks = 100000\nmax_connections = 5000\n"
        )
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
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "HOME": folder}
        )  # fmt: skip
        try:
            assert process.stdout is not None
            urls = json.loads(process.stdout.readline())["urls"]
            places_of = [_address(url) for url in urls]
            yield Server(places_of[0], places_of[1] if len(places_of) > 1 else None, process)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def floor() -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.service.floor", str(port)], text=True)
    at = Address("127.0.0.1", port)
    try:
        wait_for(at)
        yield Server(at, None, process)
    finally:
        process.kill()
        process.wait()


def _address(url: str) -> Address:
    host, _, port = url.rpartition("//")[2].rpartition(":")
    return Address(host, int(port))


def wait_for(at: Address, secs: float = 20.0) -> None:
    """Until something listens there."""
    until = time.monotonic() + secs
    while True:
        try:
            socket.create_connection(at, 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
