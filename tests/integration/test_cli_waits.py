"""Waits on the command line: a run that sleeps, one that is killed as it sleeps, and a callback."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_process import BY_STEPS, folder, going_on, replan


def wait(name: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": name, "tool": tool, "parameters": parameters, "dependencies": list(needs)}


COUNT = {"step_id": "count", "tool": "count", "parameters": {"text": "abc"}, "dependencies": ["pause"]}


def test_a_run_that_is_killed_as_it_sleeps_is_resumed_and_waits_on(tmp_path: Path) -> None:
    folder(tmp_path, {"steps": [wait("pause", "wait_for_time", seconds=4), COUNT]})
    with going_on(*BY_STEPS, "--task-id", "t", "--events", "--quiet", cwd=tmp_path) as running:
        for line in running.stdout:
            if json.loads(line)["type"] == "task_waiting":
                break
        running.send_signal(signal.SIGKILL)
        running.wait()
    shown = replan("tasks", "show", "t", cwd=tmp_path)
    assert "waiting" in shown.stdout
    assert "time: step pause: until 2" in shown.stdout
    resumed = replan("tasks", "resume", "t", "--events", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    kinds = [json.loads(line)["type"] for line in resumed.stdout.splitlines()]
    assert "wait_started" not in kinds, "it waits on"
    assert kinds[-1] == "task_completed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_run_that_sleeps_is_left_waiting_by_ctrl_c_and_by_a_terminal_that_goes(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder(tmp_path, {"steps": [wait("pause", "wait_for_time", seconds=3), COUNT]})
    with going_on(*BY_STEPS, "--task-id", "t", "--events", "--quiet", cwd=tmp_path) as running:
        for line in running.stdout:
            if json.loads(line)["type"] == "task_waiting":
                break
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
        assert running.returncode == 5, told
        assert "replan tasks resume t" in told
    resumed = replan("tasks", "resume", "t", "--events", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


def test_a_run_that_waits_for_somebody_outside_says_how_and_goes_on_with_what_was_said(
    tmp_path: Path,
) -> None:
    hook = wait("hook", "create_callback")
    said = wait("said", "wait_for_callback", "hook", token="${hook.output.token}")
    folder(tmp_path, {"steps": [hook, said]})
    left = replan(*BY_STEPS, "--task-id", "t", "--json", cwd=tmp_path)
    assert left.returncode == 5, left.stderr
    (waits,) = json.loads(left.stdout)["waiting_for"]
    shown = replan("tasks", "show", "t", cwd=tmp_path).stdout
    assert f"replan tasks signal t {waits['id']} --data JSON" in shown
    wrong = replan("tasks", "signal", "t", "cb_none", cwd=tmp_path)
    assert wrong.returncode == 2
    assert waits["id"] not in wrong.stderr, "no token is told to who guesses"
    used = replan("tasks", "signal", "t", waits["id"], "--data", '{"n": 1}', cwd=tmp_path)
    assert used.returncode == 0
    assert "replan tasks resume t" in used.stderr
    resumed = replan("tasks", "resume", "t", cwd=tmp_path)
    assert (resumed.returncode, json.loads(resumed.stdout)) == (0, {"n": 1})
