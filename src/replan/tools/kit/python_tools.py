"""A tool that runs Python code in a process of its own, within limits."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from pydantic import Field

from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.tools.bounds import MAX_RESULT_BYTES, MOST_FILE_BYTES, too_large
from replan.tools.functions.context import time_left
from replan.tools.functions.decorator import tool
from replan.tools.functions.files import File
from replan.tools.kit.group_memory import within
from replan.tools.kit.source import KitSource, kept_of_more_than
from replan.tools.large_json import parsed, taken
from replan.tools.processes import FLOOD_BYTES, plain_environment, run_program
from replan.tools.tee import Tee

_WORKER = Path(__file__).with_name("python_worker.py")


class Computed(TypedDict):
    """`result`: what the code put into `result`, or its last expression; `printed`: what it wrote, of much of it the ends.

    `printed_file` is then all that it wrote to stdout.
    """

    result: Any
    printed: str
    printed_file: NotRequired[File]


class Limits(NamedTuple):
    """What code may use: seconds, megabytes (of one process, and on Linux of all together) and processes."""

    timeout_secs: float = 30.0
    cpu_secs: float = 20.0
    memory_mb: int = 1024
    file_mb: int = 64
    processes: int = 32


def python(
    *,
    limits: Limits | None = None,
    effect: Literal["once", "repeatable"] = "once",
    network: bool = False,
    max_output_bytes: int = 100_000,
    name: str = "python",
) -> KitSource:
    """Python code as a tool, run by this interpreter with the packages that it has, in an empty temporary folder.

    The process has no variables but PATH, HOME, locale and time zone, and the limits of `limits` (resource limits of
    POSIX). Where Linux allows it, it also has no network (unless `network`), a space of processes of its own, no files
    but its folder and, to read, those of Python and the system (Landlock; and for an ordinary user a read-only mount, or a
    filter of system calls, against changed rights and times), and is nobody instead of root;
    `replan.tools.kit.python_tools.isolation` says which of these hold here. Where they do not, the code can do
    what this process can. Sockets that lie in the file system stay reachable if their rights allow it. This stops
    accidents and most mischief; for code of people who mean harm, use a machine of its own.

    `effect`: `repeatable` if what the code may do bears being done twice. An error of the code is known to have had
    no effect if neither network nor files outside of its folder could be reached.
    """
    limits = limits or Limits()
    for what, value in limits._asdict().items():
        if not value > 0 or math.isnan(value):
            raise InputError(f"python: the limit {what}={value!r} is not above zero")
    if effect not in ("once", "repeatable"):
        raise InputError(f"python: effect={effect!r} is neither 'once' nor 'repeatable'")
    if sys.platform == "win32":
        raise InputError("python: limits for a process need a POSIX system (not Windows)")

    @tool(effect=effect, timeout=limits.timeout_secs + 5, errors_are_clean=False)
    async def run_python(
        code: Annotated[str, Field(min_length=1, max_length=1_000_000)],
        input: Any = None,  # noqa: A002 - the name that the code knows it by
    ) -> Computed:
        """Run Python code to compute something. Its files are gone when it ends.

        Args:
            code: the program; it puts what it found into a variable named result
            input: a value that the code finds in a variable named input
        """
        tee = kept_of_more_than(max_output_bytes)
        said, printed, kept = await run_code(
            code, input, limits=limits, network=network, max_output_bytes=max_output_bytes, tee=tee
        )
        found: Computed = {"result": said.get("result"), "printed": printed}
        if kept is not None:
            found["printed_file"] = kept
        return found

    return KitSource([run_python], name=name)


async def run_code(
    code: str,
    given: Any,
    *,
    limits: Limits,
    network: bool = False,
    max_output_bytes: int = 100_000,
    tee: Tee | None = None,
) -> tuple[dict[str, Any], str, File | None]:
    """The worker's answer (`result`, `isolated`), what the code printed, and that as a file. Raises `ToolCallError`."""
    base = _own_folder()
    folder = base / "work"
    answer = _Answer()
    try:
        order = {
            "code": code,
            "input": given,
            "network": network,
            "limits": {
                "RLIMIT_CPU": math.ceil(limits.cpu_secs),
                "RLIMIT_AS": limits.memory_mb * 2**20,
                "RLIMIT_FSIZE": limits.file_mb * 2**20,
                "RLIMIT_NPROC": limits.processes + await asyncio.to_thread(_processes_of_this_user),
                "RLIMIT_NOFILE": 256,
            },
        }
        ended = await run_program(
            [sys.executable, "-I", "-B", "-u", str(_WORKER), str(answer.writes), str(folder)],
            what="the Python code",
            cwd=folder,
            env={
                **plain_environment(),
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "OPENBLAS_NUM_THREADS": "4",
            },
            stdin=await asyncio.to_thread(lambda: json.dumps(order).encode()),
            timeout_secs=time_left(limits.timeout_secs),
            max_output_bytes=max_output_bytes,
            pass_fds=(answer.writes,),
            watch=within(limits.memory_mb * 2**20),
            tee=tee,
            flood_bytes=FLOOD_BYTES if tee is None else MOST_FILE_BYTES,
        )
        printed = ended.stdout.text + (f"\n{ended.stderr.text}" if ended.stderr.text else "")
        isolated, begun, said = await answer.read()
        if "result" not in said and "error" not in said:
            text = _sudden_end(ended.exit_code, ended.stderr.text, limits)
            raise ToolCallError(text, happened="unknown" if begun or not isolated else "no")
        if "error" in said:
            shut_in = isolated.get("network") is True and isolated.get("files") is True
            happened = "no" if shut_in or not begun else "unknown"
            last = f"; it had printed: {printed.strip()[-500:]}" if printed.strip() else ""
            raise ToolCallError(f"the code failed: {said['error']}{last}", happened=happened)
        return {"result": said["result"], "isolated": isolated}, printed, ended.taken
    finally:
        answer.close()
        await asyncio.to_thread(shutil.rmtree, base, True)  # the code may have left a hundred thousand files


def _own_folder() -> Path:
    base = Path(tempfile.mkdtemp(prefix="replan-python-"))
    (base / "work").mkdir()
    base.chmod(0o711)  # the worker may be another user in there
    return base


async def isolation() -> dict[str, bool]:
    """What holds on this system: no `network`, no writing to other `files`, own space of `processes`, own `user`."""
    said, _, _ = await run_code("result = None", None, limits=Limits())
    found: dict[str, bool] = said["isolated"]
    return found


class _Answer:
    """What the worker tells through a pipe, line by line: nothing that was told before the code began can be undone by it."""

    def __init__(self) -> None:
        self._reads, self.writes = os.pipe()
        os.set_blocking(self._reads, False)
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reads, self._take)

    def _take(self) -> None:
        try:
            while data := os.read(self._reads, 2**20):
                if len(self._data) <= MAX_RESULT_BYTES:
                    self._data += data
        except BlockingIOError:
            pass

    async def read(self) -> tuple[dict[str, Any], bool, dict[str, Any]]:
        """What isolates the code, whether it has begun, and what came of it; raises `ToolCallError` for what is none."""
        self._take()
        return await taken(self._understood, len(self._data))

    def _understood(self) -> tuple[dict[str, Any], bool, dict[str, Any]]:
        if len(self._data) > MAX_RESULT_BYTES:
            raise too_large("run_python", MAX_RESULT_BYTES)
        lines = bytes(self._data).split(b"\n")
        if len(lines) < 2:  # not even the first one is whole
            return {}, False, {}
        first, second, *more = (*lines[:-1], b"{}")
        isolated = _object(first).get("isolated")
        told = _object(second)
        begun = told.get("begun") is True
        said = _object(more[0]) if begun and more else told
        if not isinstance(isolated, dict) or (begun and len(lines) > 4):
            text = "the code wrote into the pipe for its answer, which is not a result"
            raise ToolCallError(text, kind="output", happened="unknown")
        return isolated, begun, said

    def close(self) -> None:
        self._loop.remove_reader(self._reads)
        os.close(self._reads)
        os.close(self.writes)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = parsed(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        text = "what came in the place of the code's answer is not a JSON object"
        raise ToolCallError(text, kind="output", happened="unknown")
    return found


def _sudden_end(code: int, stderr: str, limits: Limits) -> str:
    """Why there is no answer. 128 and more: the signal that ended the code in its own space of processes."""
    signal = -code if code < 0 else code - 128
    if signal in (24, 9):  # SIGXCPU, SIGKILL
        return f"the code was stopped: it used more than {in_digits(limits.cpu_secs)} seconds of processor time, or too much memory"
    if signal == 25:  # SIGXFSZ
        return f"the code was stopped: it wrote a file of more than {limits.file_mb} MB"
    last = stderr.strip()[-500:] or "it wrote nothing"
    return f"the code ended without an answer (exit code {code}): {last}"


def _processes_of_this_user() -> int:
    """How many there are already: the limit counts all of a user. Root's worker is another user, with none."""
    if os.geteuid() == 0:
        return 0
    count, own = 0, os.geteuid()
    try:
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    if entry.stat().st_uid == own:
                        count += len(os.listdir(f"/proc/{entry.name}/task"))
                except OSError:
                    continue
    except OSError:
        return 1024  # no /proc: an upper bound that is not too low
    return count
