"""The programs that tools have started do not outlive a driver that is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECS = 60.0
"""Longer than anything here takes; what takes longer hangs."""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see what a process has started"
)


def below(pid: int) -> dict[int, str]:
    """What a process has started and what that has started, by number: the commands."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{waiting.pop()}/task").iterdir():
                for child in map(int, (thread / "children").read_text().split()):
                    waiting.append(child)
                    found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return found


def state(pid: int) -> str:
    """`S` while it sleeps, `Z` when it has ended; empty once nobody knows of it any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    return state(pid) not in ("Z", "")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECS
    while not condition():
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.02)


@pytest.fixture
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(HERE / "driver_of_programs.py"), request.param, str(tmp_path)]
    process = subprocess.Popen(command, start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("driver", "programs"),
    [
        pytest.param("shell", ["sleep", "sleep", "sh -c", "sh -c"], id="a shell, what it has started, and what that has"),
        pytest.param("sql", ["-I -c"], id="the process of a statement that never ends"),
        pytest.param("mcp", ["time.sleep"], id="a server that neither speaks nor listens"),
    ],
    indirect=["driver"],
)  # fmt: skip
def test_whatever_was_started_goes_with_a_driver_that_is_killed(
    driver: subprocess.Popen[bytes], programs: list[str]
) -> None:
    def run() -> bool:
        commands, wanted = list(below(driver.pid).values()), [*programs, "orphan_watch"]
        there = all(sum(part in one for one in commands) >= wanted.count(part) for part in wanted)
        return there and state(driver.pid) == "S"  # it has said whom to end, too, and waits

    until(run)
    started = below(driver.pid)
    assert driver.poll() is None, "it waits for its program"
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: not any(map(alive, started)))


@pytest.mark.parametrize("driver", ["shell"], indirect=True)
def test_a_driver_that_is_interrupted_leaves_nothing_either(driver: subprocess.Popen[bytes]) -> None:
    until(lambda: any("sleep" in command for command in below(driver.pid).values()))
    started = below(driver.pid)
    os.killpg(driver.pid, signal.SIGINT)
    until(lambda: not any(map(alive, started)))
    assert driver.wait(SECS) != 0
