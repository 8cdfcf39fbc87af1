"""`replan tasks pause|resume|retry|judge|fork`, as people type them, with other processes that drive."""

from __future__ import annotations

import getpass
import json
import threading
import time
from pathlib import Path
from typing import Any

from cli_process import replan

TOOLS = '''
import pathlib, time
from replan import tool


@tool(effect="once")
def pay(to: str) -> str:
    """Pay somebody."""
    with open("journal", "a") as journal:
        journal.write(to + "\\n")
    return f"paid {to}"


@tool(effect="reads")
def wait(name: str) -> str:
    """Say that it has begun, and wait for a file."""
    pathlib.Path(name + ".begun").touch()
    while not pathlib.Path(name).exists():
        time.sleep(0.02)
    return name


@tool(effect="once")
def flaky() -> str:
    """Fail until a file is there."""
    if not pathlib.Path("up").exists():
        raise ValueError("not yet")
    return "up"
'''
RUN = ("run", "go on", "--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py", "--quiet")


def step(step_id: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool, "dependencies": list(needs), "parameters": parameters}


def folder(path: Path, *steps: dict[str, Any]) -> Path:
    (path / "tools.py").write_text(TOOLS)
    (path / "plan.json").write_text(json.dumps({"steps": steps}))
    return path


def paid(path: Path) -> list[str]:
    return (path / "journal").read_text().split()


def until(path: Path) -> None:
    limit = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < limit, f"{path} never came"
        time.sleep(0.02)


class Driving:
    """A command that runs beside the test."""

    def __init__(self, *args: str, cwd: Path) -> None:
        self._done: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._done.append(replan(*args, cwd=cwd)))
        self._thread.start()

    def ended(self) -> Any:
        self._thread.join(60)
        return self._done[0]


def test_a_task_is_paused_and_resumed_from_other_terminals(tmp_path: Path) -> None:
    folder(tmp_path, step("a", "wait", name="go"), step("b", "pay", "a", to="Ann"))
    driving = Driving(*RUN, "--task-id", "t", cwd=tmp_path)
    until(tmp_path / "go.begun")

    paused = replan("tasks", "pause", "t", "--reason", "lunch", "--by", "Ann", cwd=tmp_path)
    (tmp_path / "go").touch()

    assert paused.returncode == 0
    assert "replan tasks resume t" in paused.stderr
    assert driving.ended().returncode == 5
    assert not (tmp_path / "journal").exists()
    again = replan("tasks", "pause", "t", cwd=tmp_path)
    assert (again.returncode, "paused already by Ann" in again.stderr) == (2, True)
    shown = replan("tasks", "show", "t", cwd=tmp_path).stdout
    assert "waiting: it was paused by Ann: lunch" in shown
    resumed = replan("tasks", "resume", "t", "--quiet", "--by", "Bob", cwd=tmp_path)
    assert (resumed.returncode, paid(tmp_path)) == (0, ["Ann"])
    events = [
        json.loads(line)
        for line in replan("tasks", "show", "t", "--events", cwd=tmp_path).stdout.splitlines()
    ]
    said = {
        one["type"]: one["data"]["by"]
        for one in events
        if "by" in one["data"] and one["data"]["by"] != "steps"
    }
    assert said == {"pause_requested": "Ann", "resume_requested": "Bob"}


def test_an_ended_task_goes_on_in_a_fork_and_says_so(tmp_path: Path) -> None:
    folder(tmp_path, step("a", "pay", to="Ann"), step("f", "flaky", "a"), step("b", "pay", "f", to="Bob"))
    assert replan(*RUN, "--task-id", "t", cwd=tmp_path).returncode == 1
    (tmp_path / "up").touch()

    refused = [
        replan("tasks", *act, cwd=tmp_path) for act in (("retry", "t", "f"), ("judge", "t"), ("pause", "t"))
    ]
    forked = replan("tasks", "fork", "t", "--retry", "f", "--task-id", "f1", "--quiet", cwd=tmp_path)

    assert {(one.returncode, "replan tasks fork t" in one.stderr) for one in refused} == {(2, True)}
    assert forked.returncode == 0, forked.stderr
    assert paid(tmp_path) == ["Ann", "Bob"]
    assert (
        json.loads(replan("tasks", "show", "t", "--json", cwd=tmp_path).stdout)["forks"][0]["task_id"] == "f1"
    )
    told = json.loads(replan("tasks", "show", "f1", "--json", cwd=tmp_path).stdout)
    assert told["forked_from"]["task_id"] == "t"
    (event,) = (
        one["data"]
        for one in map(
            json.loads, replan("tasks", "show", "f1", "--events", cwd=tmp_path).stdout.splitlines()
        )
        if one["type"] == "task_forked"
    )
    assert event["by"] == getpass.getuser()
    kept = replan("tasks", "delete", "t", cwd=tmp_path)
    assert (kept.returncode, "before its forks" in kept.stderr) == (2, True)


def test_a_task_and_its_fork_are_driven_side_by_side_and_pay_once(tmp_path: Path) -> None:
    folder(tmp_path, step("a", "wait", name="go"), step("b", "pay", "a", to="Ann"))
    driving = Driving(*RUN, "--task-id", "t", cwd=tmp_path)
    until(tmp_path / "go.begun")
    stored = replan("tasks", "fork", "t", "--task-id", "f1", "--detach", cwd=tmp_path)
    forking = Driving("tasks", "resume", "f1", "--quiet", cwd=tmp_path)
    (tmp_path / "go").touch()

    assert stored.stdout == "f1\n"
    assert (driving.ended().returncode, forking.ended().returncode) == (0, 0)
    assert paid(tmp_path) == ["Ann"]


def test_a_failed_step_is_tried_again_while_the_task_runs(tmp_path: Path) -> None:
    folder(tmp_path, step("f", "flaky"), step("a", "wait", name="go"), step("b", "pay", "f", "a", to="Ann"))
    driving = Driving(*RUN, "--task-id", "t", cwd=tmp_path)
    until(tmp_path / "go.begun")
    (tmp_path / "up").touch()

    limit = time.monotonic() + 60  # the step may not have failed yet
    while (asked := replan("tasks", "retry", "t", "f", cwd=tmp_path)).returncode and time.monotonic() < limit:
        pass
    (tmp_path / "go").touch()

    assert "the process that drives it goes on" in asked.stderr
    assert driving.ended().returncode == 0
    assert paid(tmp_path) == ["Ann"]


def test_a_fork_goes_by_another_plan(tmp_path: Path) -> None:
    folder(tmp_path, step("a", "pay", to="Ann"))
    assert replan(*RUN, "--task-id", "t", cwd=tmp_path).returncode == 0
    folder(tmp_path, step("a", "pay", to="Ann"), step("b", "pay", "a", to="Bob"))

    forked = replan("tasks", "fork", "t", "--plan", "plan.json", "--json", "--quiet", cwd=tmp_path)

    assert forked.returncode == 0, forked.stderr
    assert json.loads(forked.stdout)["output"] == "paid Bob"
    assert paid(tmp_path) == ["Ann", "Bob"]


def test_a_hint_of_a_fork_that_nobody_would_hear_is_said_to_be(tmp_path: Path) -> None:
    folder(tmp_path, step("a", "pay", to="Ann"))
    assert replan(*RUN, "--task-id", "t", cwd=tmp_path).returncode == 0

    forked = replan("tasks", "fork", "t", "--hint", "in euros", "--detach", cwd=tmp_path)
    judged = replan(
        "tasks", "fork", "t", "--hint", "in euros", "--evaluation", "model", "--detach", cwd=tmp_path
    )

    assert "heard by nobody" in forked.stderr
    assert "heard by nobody" not in judged.stderr
