"""Processes of the command that start warm: forked from one that has imported what the command needs.

Most of what a short command costs is its imports. Each call is a process of its own all the same, with its own
arguments, folder, environment, streams and exit code, which begins at `python -m replan.cli`.

Run as a program, this file is the process that is forked from: it waits at the socket of its first argument, and ends
when the tests do.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

import shared

PRELOADED = (
    *(
        "replan.app",
        "replan.store.sqlite",
        "replan.llm.fallback",
        "replan.llm.providers.opening",
        "replan.llm.wire",
    ),
    *("replan.llm.provider", "genai_prices.data", "openai.resources.chat.completions"),
    *(
        "typer.main",
        "typer._adapters",
        "rich.markup",
        "rich.text",
        "ulid",
        "platformdirs.unix",
        "jsonschema_rs",
    ),
    *("pydantic_ai.models.openai", "pydantic_ai.providers.openai", "mcp.client.stdio"),
    *("anyio._backends._asyncio", "concurrent.futures.thread"),
    *("replan.tools.remote.server_http", "replan.tools.remote.server_grpc", "uvicorn", "grpc.aio"),
    *("replan.server.run", "replan.server.http.app", "replan.server.http.serving", "httptools", "uvloop"),
    *("replan.store.postgres.store", "replan.engine.procrastinate.worker", "replan.projections.json_lines"),
)
"""Imported before the first fork, with all of `replan.cli`; nothing of these starts a thread."""
_LOOK_SECS = 1.0


# ── the test's side ──


class Process:
    """A process of the command, used as `subprocess.Popen` is; its streams are UTF-8."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        cwd: Path,
        env: Mapping[str, str],
        stdin: str = "",
        *,
        apart: bool = True,
        terminal: int | None = None,
    ) -> None:
        """`apart=False`: what it writes to stderr goes where the tests' own does. `terminal`: all its streams, in a
        session of its own."""
        self.args = [sys.executable, "-m", "replan.cli", *arguments]
        self.returncode: int | None = None
        self._stdin = stdin.encode("utf-8")
        given, self._to = os.pipe()
        out, told_out = os.pipe()
        err, told_err = os.pipe() if apart else (os.open(os.devnull, os.O_RDONLY), os.dup(2))
        self.stdout: IO[str] = open(out, encoding="utf-8")  # noqa: SIM115
        self.stderr: IO[str] = open(err, encoding="utf-8")  # noqa: SIM115
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(_server())
            session = terminal is not None
            request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "session": session}
            ours = [given, told_out, told_err]
            streams = ours if terminal is None else [terminal] * 3
            asked.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))])
            asked.sendall(json.dumps(request).encode() + b"\n")
            for each in ours:
                os.close(each)
            self._asked = asked.dup()
        with self._asked.makefile("rb", buffering=0) as answers:
            self.pid = int(answers.readline())
        self._writer = threading.Thread(target=self._write)
        self._writer.start()

    def _write(self) -> None:
        with suppress(BrokenPipeError), open(self._to, "wb") as stream:
            stream.write(self._stdin)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._asked.settimeout(timeout)
            try:
                told = self._asked.recv(16)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._asked.close()
            self._writer.join()
            self.returncode = int(told)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of both streams, and its end."""
        texts = ["", ""]

        def read(index: int, stream: IO[str]) -> None:
            with suppress(ValueError), stream:  # closed: it was read before
                texts[index] = stream.read()

        work = [threading.Thread(target=read, args=each) for each in enumerate((self.stdout, self.stderr))]
        for each in work:
            each.start()
        self.wait(timeout)
        for each in work:
            each.join(timeout)
        return texts[0], texts[1]


def run(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """The command run to its end; stdout and stderr apart, as UTF-8."""
    process = Process(arguments, cwd, env, stdin)
    try:
        out, err = process.communicate(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def program(path: Path) -> Path:
    """Make `path` a program that is the command, for shells; it starts warm."""
    path.write_text(
        f"""#!{sys.executable} -IS
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({_server()!r})
    asked.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "session": False}}
    asked.sendall(json.dumps(request).encode() + b"\\n")
    answers = asked.makefile("rb")
    answers.readline()
    sys.exit(int(answers.readline()))
""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


@cache
def _server() -> str:
    """The socket of the process that is forked from, which all test processes share, started when it is first needed."""
    folder = shared.folder("warm")
    path = str(folder / "s")
    with FileLock(folder / "lock"):
        if not (folder / "s").exists():
            server = subprocess.Popen(
                [sys.executable, __file__, path],
                env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(Path(shared.__file__).parent)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            server.stdout.close()
            server.returncode = 0  # it goes on when this process ends
    return path


# ── the side of the process that is forked from ──


def _preload() -> None:
    import replan.cli

    for module in pkgutil.walk_packages(replan.cli.__path__, "replan.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in PRELOADED:
        importlib.import_module(name)
    import typer.main

    from replan.cli.tree import app

    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)  # the tree of commands, which is the same for each
    gc.collect()
    gc.freeze()


def _serve(path: str) -> dict[str, Any]:
    """Returns in each new process of the command, with what it is to be; never in the one that is forked from."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        os.write(1, b"ready\n")
        while True:
            _reap()
            if not select.select([listener], [], [], _LOOK_SECS)[0]:
                if not shared.is_over(Path(path).parent):
                    continue
                os._exit(0)
            asked, _ = listener.accept()
            if os.fork() == 0:
                break
            asked.close()
    return _run_for(asked)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run_for(asked: socket.socket) -> dict[str, Any]:
    """Fork once more: the older waits and tells the exit code, the younger becomes the command."""
    _, streams, _, _ = socket.recv_fds(asked, 1, 3)
    request: dict[str, Any] = json.loads(asked.makefile("rb").readline())
    pid = os.fork()
    if pid == 0:
        asked.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return request
    for stream in streams:
        os.close(stream)
    asked.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any]) -> None:
    if request["session"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.path[0] = request["cwd"]
    sys.argv = ["-m", *request["arguments"]]


def _end(code: int) -> None:
    """As the interpreter ends, but for taking itself apart: that would copy most of what it shares with the others."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _preload()
    _become(_serve(sys.argv[1]))
    try:
        runpy.run_module("replan.cli", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _end(end.code or 0)
        raise
