"""Programs in the service's own kind of event loop: started, read, told of their end, and refused, as in asyncio's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from replan.errors import ToolCallError
from replan.server.loop import UNKNOWN, ServiceLoop
from replan.tools.processes import run_program

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": ServiceLoop}


async def started(*command: str, **more: object) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, **more)  # type: ignore[arg-type]


async def test_it_is_uvloop_that_runs_this() -> None:
    assert isinstance(asyncio.get_running_loop(), ServiceLoop)


async def test_a_program_is_read_and_written_and_its_exit_code_known() -> None:
    process = await started(
        sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1]); print('e', file=sys.stderr); sys.exit(7)"
    )  # fmt: skip
    out, err = await process.communicate(b"x" * 300_000 + b"abc")
    assert out.startswith(b"cbax")
    assert (len(out), err, process.returncode) == (300_004, b"e\n", 7)


@pytest.mark.parametrize(
    ("command", "more", "error"),
    [
        (["/nonexistent/program"], {}, FileNotFoundError),
        (["/"], {}, PermissionError),
        (["ls"], {"cwd": "/nonexistent"}, FileNotFoundError),
        (["ls", "x" * 3_000_000], {}, OSError),
    ],
)
async def test_what_cannot_be_started_is_told_as_that(
    command: list[str], more: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await started(*command, **more)
    with pytest.raises(ToolCallError) as caught:
        await run_program(command, what="it", cwd=None if "cwd" not in more else Path(str(more["cwd"])))
    assert caught.value.happened == "no"


async def test_a_tool_that_is_a_program_is_run_to_its_end() -> None:
    assert (await run_program(["cat"], what="it", stdin=b"abc")).stdout.text == "abc"
    assert (await run_program(["sh", "-c", "exit 5"], what="it")).exit_code == 5
    with pytest.raises(ToolCallError) as caught:
        await run_program(["sleep", "60"], what="it", timeout_secs=0.2)
    assert caught.value.kind == "timeout"


async def test_a_signal_ends_it_and_is_its_exit_code() -> None:
    process = await started("sleep", "60")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == -signal.SIGTERM


async def test_nothing_of_this_process_is_run_in_the_child() -> None:
    """What is registered to be done after a fork is Python's, in a process of many threads."""
    told, tells = os.pipe()
    os.set_inheritable(tells, True)
    os.register_at_fork(after_in_child=lambda: os.write(tells, b"ran"))
    try:
        process = await started("true", close_fds=False)
        assert await process.wait() == 0
    finally:
        os.close(tells)
    assert os.read(told, 10) == b""
    os.close(told)


async def test_many_at_once_are_each_told_their_own_end() -> None:
    codes = [n % 3 for n in range(30)]
    processes = await asyncio.gather(*(started("sh", "-c", f"exit {code}") for code in codes))
    assert await asyncio.gather(*(one.wait() for one in processes)) == codes


async def test_one_that_somebody_else_has_waited_for_has_ended_nevertheless() -> None:
    process = await started("cat")
    os.kill(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)  # noqa: ASYNC222 -- before the loop can be told
    assert await process.wait() == UNKNOWN


async def test_without_a_word_of_the_kernel_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int, flags: int = 0) -> int:
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", missing, raising=False)
    process = await started("sh", "-c", "exit 3")
    assert await process.wait() == 3


async def test_a_shell_line_and_text_in_place_of_bytes() -> None:
    process = await asyncio.create_subprocess_shell("exit 4")
    assert await process.wait() == 4
    with pytest.raises(ValueError, match="bytes"):
        await asyncio.create_subprocess_exec("true", text=True)
