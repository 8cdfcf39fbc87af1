"""Ctrl-C and the live picture, with real signals and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import warm_command
from cli_process import BY_STEPS, COMMAND, environment, folder, one_step, replan

Started = subprocess.Popen[str] | warm_command.Process


@contextmanager
def started(cwd: Path, *args: str, within: tuple[str, ...] = ()) -> Iterator[Started]:
    """The command as it runs; within another one from cold."""
    process: Started
    if within:
        process = subprocess.Popen(
            [*within, *COMMAND, *args],
            cwd=cwd,
            env=environment(cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    else:
        process = warm_command.Process(args, cwd, environment(cwd))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(there: Callable[[], bool]) -> None:
    """Wait until it is so, which it has to become."""
    deadline = time.monotonic() + 30
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_until(process: Started, part: str) -> None:
    """Read stderr up to a line with these words."""
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return
    raise AssertionError(f"it ended without saying {part!r}")


def test_ctrl_c_cancels_the_task_and_leaves_with_exit_code_3(tmp_path: Path) -> None:
    folder(tmp_path, one_step("wait_for_ever"))
    with started(tmp_path, *BY_STEPS, "--json", "--task-id", "t-1") as process:
        read_until(process, "only started")
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 3, said
    assert json.loads(out)["status"] == "cancelled"
    assert "press Ctrl-C again" in said
    events = [
        json.loads(line)
        for line in replan("tasks", "show", "t-1", "--events", cwd=tmp_path).stdout.splitlines()
    ]
    assert [event["type"] for event in events].count("cancel_requested") == 1
    assert events[-1]["type"] == "task_cancelled"


DEAF_TOOLS = '''
import asyncio, sys, time
from pathlib import Path
from replan import tool


@tool(effect="reads")
async def hold() -> str:
    """Hold up everything when it is cancelled, but for the second time."""
    if Path("held").exists():
        return "at last"
    Path("held").touch()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        sys.stderr.write("holding on\\n")
        time.sleep(60)
    return "never"


@tool(effect="once")
async def deaf(how: str) -> str:
    """Ignore every cancellation."""
    sys.stderr.write("deaf now\\n")
    for _ in range(1000):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if how == "raises":
                await asyncio.shield(asyncio.sleep(60))
    return "never"


@tool(effect="once")
def sleepy() -> str:
    """Sleep in a thread."""
    sys.stderr.write("deaf now\\n")
    time.sleep(60)
    return "never"
'''


def deaf_folder(at: Path, tool: str, **parameters: str) -> None:
    folder(at, {"steps": [{"step_id": "only", "tool": tool, "parameters": parameters}]})
    (at / "tools.py").write_text(DEAF_TOOLS, encoding="utf-8")


def test_a_second_ctrl_c_stops_at_once_and_the_task_goes_on_where_it_is_resumed(tmp_path: Path) -> None:
    deaf_folder(tmp_path, "hold")
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "only started")
        process.send_signal(signal.SIGINT)
        read_until(process, "holding on")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped at once" in said
    resumed = replan("tasks", "resume", "t-1", cwd=tmp_path)
    assert (resumed.returncode, resumed.stdout) == (0, "at last\n"), resumed.stderr


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.06, 0.2])
def test_quick_presses_leave_what_was_said_and_the_log_of_one_mind(tmp_path: Path, gap: float) -> None:
    folder(tmp_path, one_step("wait_for_ever"))
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "only started")
        for _ in range(4):  # as people press it who see nothing happen
            process.send_signal(signal.SIGINT)
            time.sleep(gap)
        _, said = process.communicate(timeout=30)
    (task,) = json.loads(replan("tasks", "list", "--json", cwd=tmp_path).stdout)
    if process.returncode == 3:
        assert task["status"] == "cancelled"
        assert "replan tasks resume" not in said
    else:
        assert (process.returncode, task["status"]) == (130, "executing"), said
        assert "`replan tasks resume t-1`" in said


def test_who_has_ended_a_task_is_named(tmp_path: Path) -> None:
    folder(tmp_path, one_step("wait_for_ever"))
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "only started")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, "cancelled by SIGTERM" in said, "Ctrl-C" in said) == (3, True, False), said


def test_a_cancellation_by_another_command_stays_though_the_driver_is_killed(tmp_path: Path) -> None:
    deaf_folder(tmp_path, "hold")
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "only started")
        assert replan("tasks", "cancel", "t-1", cwd=tmp_path).returncode == 0
        read_until(process, "holding on")
        process.kill()
        process.communicate(timeout=30)
    assert replan("tasks", "resume", "t-1", cwd=tmp_path).returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("tool", "parameters"),
    [("deaf", {"how": "swallows"}), ("deaf", {"how": "raises"}), ("sleepy", {})],
    ids=["swallows", "shields", "thread"],
)
def test_a_tool_that_does_not_listen_is_left_behind(
    tmp_path: Path, number: signal.Signals, tool: str, parameters: dict[str, str]
) -> None:
    deaf_folder(tmp_path, tool, **parameters)
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "deaf now")
        process.send_signal(number)
        _, said = process.communicate(timeout=30)  # it would take a minute
    assert process.returncode == 3, said
    assert "Traceback" not in said
    assert "destroyed" not in said
    assert replan("tasks", "show", "t-1", "--json", cwd=tmp_path).returncode == 0


def wait_folder(at: Path) -> None:
    """A plan that ends when there is a file `go`."""
    folder(at, one_step("wait_for_file", name="go"))
    (at / "tools.py").write_text(CRASH_TOOLS, encoding="utf-8")


def ignoring(*names: str) -> tuple[str, ...]:
    """What a command is started with to ignore signals, as `nohup` and a script's `… &` start it."""
    return ("sh", "-c", f"trap '' {' '.join(names)}; exec \"$@\"", "sh")


def test_under_nohup_a_terminal_that_goes_away_ends_nothing_and_being_told_to_end_does(
    tmp_path: Path,
) -> None:
    folder(tmp_path, one_step("wait_for_ever"))
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1", within=ignoring("HUP")) as process:
        read_until(process, "only started")
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
        assert json.loads(replan("tasks", "list", "--json", cwd=tmp_path).stdout)[0]["status"] == "executing"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, "cancelled by SIGTERM" in said, "SIGHUP" in said) == (3, True, False), said


def test_in_the_background_of_a_script_a_task_comes_to_its_end_whatever_ends_the_script(
    tmp_path: Path,
) -> None:
    wait_folder(tmp_path)
    with started(tmp_path, *BY_STEPS, within=ignoring("HUP", "INT", "QUIT")) as process:
        read_until(process, "only started")
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGINT):
            process.send_signal(number)
        (tmp_path / "go").touch()
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "there\n"), said


def test_a_watcher_in_the_background_of_a_script_goes_on_watching(tmp_path: Path) -> None:
    wait_folder(tmp_path)
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as driver:
        read_until(driver, "only started")
        with started(tmp_path, "tasks", "watch", "t-1", within=ignoring("INT")) as watcher:
            read_until(watcher, "only started")
            watcher.send_signal(signal.SIGINT)
            (tmp_path / "go").touch()
            _, said = watcher.communicate(timeout=60)
        driver.communicate(timeout=60)
    assert (watcher.returncode, driver.returncode) == (0, 0), said


def test_what_is_told_to_end_ends_its_programs_first(tmp_path: Path) -> None:
    parameters = {"program": "sh", "arguments": ["-c", "echo $$ > pid; sleep 60; echo done > done"]}
    folder(tmp_path, {"steps": [{"step_id": "only", "tool": "run_command", "parameters": parameters}]})
    run = ("run", "--plan", "plan.json", "--evaluation", "steps", "--tools", "kit:shell=sh")
    with started(tmp_path, *run, "--task-id", "t-1") as process:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 3, said
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() if Path("/proc").exists() else True)
    assert not (tmp_path / "done").exists()


CRASH_TOOLS = '''
from pathlib import Path
from replan import tool


@tool(effect="once")
def note() -> str:
    """Write a line."""
    with Path("notes.txt").open("a") as notes:
        notes.write("noted\\n")
    return "noted"


@tool(effect="reads")
async def wait_for_file(name: str) -> str:
    """Wait until there is a file of that name."""
    import asyncio

    while not Path(name).exists():
        await asyncio.sleep(0.02)
    return "there"
'''


def test_a_killed_run_is_resumed_from_its_log_and_finished_steps_do_not_run_again(tmp_path: Path) -> None:
    steps = [
        {"step_id": "first", "tool": "note", "parameters": {}},
        {
            "step_id": "second",
            "tool": "wait_for_file",
            "parameters": {"name": "go"},
            "dependencies": ["first"],
        },
    ]
    folder(tmp_path, {"steps": steps})
    (tmp_path / "tools.py").write_text(CRASH_TOOLS, encoding="utf-8")
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as process:
        read_until(process, "second started")
        unfinished = replan("tasks", "result", "t-1", cwd=tmp_path)
        held = replan("tasks", "resume", "t-1", cwd=tmp_path)
        process.kill()
        process.communicate(timeout=60)
    assert (unfinished.returncode, unfinished.stdout) == (2, "")
    assert "replan tasks watch t-1" in unfinished.stderr
    assert held.returncode == 2, held.stderr
    (tmp_path / "go").touch()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (tmp_path / "tools.py").rename(tmp_path / "kept.py")
    lost = replan("tasks", "resume", "t-1", cwd=tmp_path)
    assert lost.returncode == 2
    assert "there is no file tools.py" in lost.stderr
    assert (
        f"begun with --tools tools.py in {tmp_path}: resume it there, or give its tools anew" in lost.stderr
    )
    (tmp_path / "kept.py").rename(tmp_path / "tools.py")
    resumed = replan("tasks", "resume", "t-1", "--json", cwd=elsewhere, env=environment(tmp_path))
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["final_output"] == "there"
    assert (tmp_path / "notes.txt").read_text() == "noted\n"
    (tmp_path / "tools.py").unlink()
    again = replan("tasks", "resume", "t-1", cwd=tmp_path)
    assert again.returncode == 2
    assert "ended" in again.stderr
    assert "what it was begun with" not in again.stderr


def test_ctrl_c_while_watching_leaves_the_task_alone(tmp_path: Path) -> None:
    folder(tmp_path, one_step("wait_for_ever"))
    with started(tmp_path, *BY_STEPS, "--task-id", "t-1") as driver:
        read_until(driver, "only started")
        with started(tmp_path, "tasks", "watch", "t-1") as watcher:
            read_until(watcher, "only started")
            watcher.send_signal(signal.SIGINT)
            watcher.communicate(timeout=60)
            assert watcher.returncode == 130
        assert "planning" not in replan("tasks", "list", "--status", "cancelled", cwd=tmp_path).stdout
        assert replan("tasks", "cancel", "t-1", "--reason", "enough", cwd=tmp_path).returncode == 0
        _, said = driver.communicate(timeout=60)
    assert driver.returncode == 3
    assert "enough" in said


def test_on_a_terminal_the_plan_is_drawn_live_and_the_answer_stays_alone(tmp_path: Path) -> None:
    folder(tmp_path)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *BY_STEPS],
        cwd=tmp_path,
        env=environment(
            tmp_path, {"TERM": "xterm-256color", "COLUMNS": "90", "LINES": "30", "LANG": "C.UTF-8"}
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = bytearray()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # Linux: the other side is closed
                break
            if not data:
                break
            shown += data
    os.close(ours)
    assert process.stdout is not None
    with process.stdout:
        answer = process.stdout.read()
    assert process.wait(timeout=30) == 0
    assert answer == b"7\n"
    picture = shown.decode()
    for part in ("plan 1: 3 steps in 2 layers, parallel", "✓ one", "✓ sum", "✓ 3 succeeded"):
        assert part in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", picture)
    assert picture.rindex("\x1b[?25h") > picture.rindex("\x1b[?25l"), "the cursor is shown again"
