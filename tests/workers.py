"""Workers as real processes, a journal of what their tools have done, and a gate that holds a call until the test lets it go.

Run as a program, this file is the process that workers are forked from: one for each line of JSON that it reads.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import queue
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from pydantic import RootModel, field_validator

SECS = 60.0
"""How long anything may take before the test fails."""
TAKEOVER_SECS = 2.0


# ── the test's side ──


class Arrival(NamedTuple):
    """A call that stands at the gate."""

    name: str
    task_id: str
    pid: int
    connection: socket.socket

    def let_go(self) -> None:
        with suppress(OSError):  # its process may be gone
            self.connection.sendall(b"go\n")


class Gate:
    """Where tools of workers wait for the test."""

    def __init__(self, path: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(100)
        self._arrivals: queue.Queue[Arrival] = queue.Queue()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            with connection.makefile() as lines:
                said = json.loads(lines.readline())
            self._arrivals.put(Arrival(said["name"], said["task"], said["pid"], connection))

    def next(self) -> Arrival:
        """Whoever comes next."""
        return self._arrivals.get(timeout=SECS)

    def nobody(self) -> bool:
        return self._arrivals.empty()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(SECS)
        for each in (self._server, *self._connections):
            each.close()


class WorkerProcess:
    """A worker that the test may kill."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._folder = folder
        self._handle = os.pidfd_open(pid)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, how)

    def ended(self) -> None:
        """Wait for its end."""
        found, _, _ = select.select([self._handle], [], [], SECS)
        assert found, f"worker {self.pid} does not end"

    @property
    def left_cleanly(self) -> bool:
        return (self._folder / f"left.{self.pid}").exists()

    def close(self) -> None:
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.kill(self.pid, signal.SIGCONT)
        os.close(self._handle)


class Workers:
    """Starts workers on one database."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.gate = Gate(folder / "gate")
        self._all: list[WorkerProcess] = []

    def start(self, **options: Any) -> WorkerProcess:
        """A worker that is at work. `tools`: their names; `address`, `concurrency`, `queues`, `grace`, `most`."""
        said = _forked({"folder": str(self.folder), "address": self.address, **options})
        made = WorkerProcess(said["pid"], self.folder)
        self._all.append(made)
        return made

    def journal(self) -> list[tuple[str, str, int]]:
        """What was done: tool and argument, task, process."""
        path = self.folder / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(said["name"], said["task"], said["pid"]) for said in map(json.loads, lines)]

    def done(self, task_id: str) -> list[str]:
        return [name for name, task, _ in self.journal() if task == task_id]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._all:
            worker.close()
        self.gate.close()
        for path in self.folder.glob("traceback.*"):
            assert kind is not None, path.read_text()
            sys.stderr.write(path.read_text())


def _forked(spec: dict[str, Any]) -> dict[str, Any]:
    """What a new worker says of itself once it is at work."""
    nursery, number = _nursery(), secrets.token_hex(4)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(json.dumps({**spec, "number": number, "env": dict(os.environ)}) + "\n")
    nursery.stdin.flush()
    for line in nursery.stdout:
        said: dict[str, Any] = json.loads(line)
        if said["number"] == number:  # else it is of an older one, which has failed since
            return said
    raise RuntimeError("the process that workers are forked from has ended")


@cache
def _nursery() -> subprocess.Popen[str]:
    """It lives as long as this process."""
    nursery = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(nursery.communicate, timeout=SECS)
    return nursery


class Loud(RootModel[str]):
    """A type of answers, with a rule that no schema has."""

    @field_validator("root")
    @classmethod
    def _loud(cls, text: str) -> str:
        if text != text.upper():
            raise ValueError("say it loud")
        return text


def step(name: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {
        "step_id": name,
        "tool": tool,
        "parameters": {"what": name, **parameters},
        "dependencies": list(needs),
    }


# ── the workers' side ──


def tools(folder: Path, names: list[str]) -> list[Any]:
    from replan import tool
    from replan.tools.functions.context import current

    def note(name: str) -> None:
        line = json.dumps({"name": name, "task": current().task_id, "pid": os.getpid()}) + "\n"
        fd = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, line.encode())
        os.fsync(fd)
        os.close(fd)

    async def at_gate(name: str) -> None:
        reader, writer = await asyncio.open_unix_connection(folder / "gate")
        writer.write(
            json.dumps({"name": name, "task": current().task_id, "pid": os.getpid()}).encode() + b"\n"
        )
        try:
            await reader.readline()
        finally:
            writer.close()

    @tool(effect="once")
    async def do(what: str) -> str:
        """Do it, at once."""
        note(what)
        return what

    @tool(effect="once")
    async def do_at_gate(what: str) -> str:
        """Do it when the test says so."""
        await at_gate(what)
        note(what)
        return what

    @tool(effect="repeatable")
    async def hold(what: str) -> str:
        """Wait at the gate. It may be called again."""
        await at_gate(what)
        note(what)
        return what

    @tool(effect="repeatable")
    async def nap(what: str, secs: float = 0.05) -> str:
        """Take a while."""
        await asyncio.sleep(secs)
        return what

    @tool(effect="repeatable")
    async def block(what: str, secs: float) -> str:
        """Hold up the event loop of the tasks."""
        import time

        time.sleep(secs)  # noqa: ASYNC251 - what is tried
        note(what)
        return what

    @tool(effect="once")
    def grind(what: str, secs: float) -> str:
        """Hold the interpreter, so that no thread of the process runs, and compute."""
        import time

        began = time.perf_counter()
        sum(range(10_000_000))
        sum(range(int(10_000_000 * secs / (time.perf_counter() - began))))
        note(what)
        return what

    @tool(effect="repeatable")
    def stall(what: str, secs: float) -> str:
        """Hold the interpreter, and do nothing."""
        import ctypes

        ctypes.PyDLL(None).usleep(int(secs * 1e6))
        return what

    @tool(effect="once", requires_approval=True)
    async def pay(what: str) -> str:
        """Ask a person first."""
        note(what)
        return what

    every = {one.__name__: one for one in (do, do_at_gate, hold, nap, block, grind, stall, pay)}
    return [every[name] for name in names or every]


def replan(spec: dict[str, Any], **options: Any) -> Any:
    """A Replan whose tasks are taken by workers."""
    from replan import Replan
    from replan.config import Settings

    settings = Settings.model_validate(
        {
            "engine": {
                "kind": spec.get("kind", "procrastinate"),
                "takeover_secs": spec.get("takeover", TAKEOVER_SECS),
                "max_running_tasks": spec.get("most"),
            },
            "orchestrator": {"max_concurrent_tasks": spec.get("places", 10)},
            "approval": {"mode": spec.get("approval", "never")},
            "tools": {"rules": spec.get("rules", {})},
            "audit": {"file": spec.get("audit")},
        }
    )
    made = tools(Path(spec["folder"]), spec.get("tools") or [])
    asked = {"interactive": spec.get("interactive", True)}
    return Replan(tools=made, db=spec["address"], settings=settings, evaluation="steps", **asked, **options)


async def _work(spec: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def ready() -> None:
        print(json.dumps({"pid": os.getpid(), "number": spec["number"]}), flush=True)

    async with replan(spec) as made:
        await made.work(
            concurrency=spec.get("concurrency", 4),
            queues=spec.get("queues", ()),
            grace_secs=spec.get("grace", 20.0),
            stop=stop,
            ready=ready,
        )
    (Path(spec["folder"]) / f"left.{os.getpid()}").touch()


def _serve() -> None:
    import replan.app
    import replan.engine.procrastinate.worker
    import replan.store.postgres.store  # noqa: F401 - imported once, here

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to be waited for
    for line in sys.stdin:
        spec = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.chdir(spec["folder"])
            os.environ.clear()
            os.environ.update(spec["env"])
            try:
                asyncio.run(_work(spec))
            except BaseException:  # noqa: BLE001 - whatever it is, the test has to see it
                Path(spec["folder"], f"traceback.{os.getpid()}").write_text(traceback.format_exc())
                said = {"pid": os.getpid(), "number": spec["number"], "failed": True}
                print(json.dumps(said), flush=True)
            finally:
                os._exit(0)


if __name__ == "__main__":
    _serve()
