"""What is forbidden here, and what needs a person's yes here, stays so for a task that was begun where it was otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan
from test_cli_goes_on import TOOLS, noted, resume

FIRST = {"tool": "look", "parameters": {}, "requires_approval": True}
PLAN = {
    "steps": [
        {"step_id": "a", **FIRST},
        {"step_id": "b", "tool": "note", "parameters": {"text": "two"}, "dependencies": ["a"]},
    ]
}
LOOK = '''

@tool(effect="reads")
def look() -> str:
    """Look."""
    return "seen"
'''
STRICT = '[approval]\nmode = "destructive"\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "tools.py").write_text(TOOLS + LOOK)
    (tmp_path / "here" / "plan.json").write_text(json.dumps(PLAN))
    return tmp_path / "here"


def command(place: Path, *args: str) -> Any:
    return replan(*args, "--db", "log.db", cwd=place)


def begun(place: Path, *options: str, ask: str = "--interactive") -> None:
    """Where nobody is asked it is paused before its first call."""
    plan = ("--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py")
    if ask == "--no-interactive":
        (place / "plan.json").write_text(json.dumps({"steps": [{**PLAN["steps"][1], "dependencies": []}]}))
        (place / "tools.py").write_text(
            TOOLS.replace(
                "def note(text: str) -> str:",
                "def note(text: str) -> str:\n    import os, signal, pathlib\n    if not pathlib.Path('on').exists(): os.kill(os.getpid(), signal.SIGKILL)",
            )
        )
        assert command(place, "run", "do it", "--task-id", "t", ask, *plan, *options).returncode == -9
        return
    waits = command(place, "run", "do it", "--task-id", "t", ask, *plan, *options)
    assert waits.returncode == 5, waits.stderr
    assert command(place, "tasks", "approve", "t").returncode == 0


def log(place: Path, task_id: str = "t") -> list[dict[str, Any]]:
    lines = command(place, "tasks", "show", task_id, "--events").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_a_call_that_needs_a_yes_here_needs_it_for_a_task_that_was_begun_without(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text(STRICT)
    waits = resume(place, away=False)
    assert waits.returncode == 5, waits.stderr
    assert "[approval] mode" in waits.stderr
    assert not (place / "notes.txt").exists()
    (place / "config.toml").unlink()
    again = resume(place, away=False)
    assert again.returncode == 5, "it stays so, wherever it goes on"
    assert command(place, "tasks", "approve", "t").returncode == 0
    assert resume(place, away=False).returncode == 0
    assert noted(place) == "two\n"
    assert {"approval": "destructive"} in [one["data"].get("instead") for one in log(place)]


def test_an_option_says_which_calls_need_a_yes_whatever_the_configuration_says(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text(STRICT)
    done = resume(place, "--approve", "never", away=False)
    assert (done.returncode, noted(place)) == (0, "two\n"), done.stderr


def test_a_fork_that_is_told_which_calls_need_a_yes_is_driven_so(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text(STRICT)
    forked = command(place, "tasks", "fork", "t", "--task-id", "f", "--approve", "never")
    assert (forked.returncode, noted(place)) == (0, "two\n"), forked.stderr


@pytest.mark.parametrize("given", [(), ("--tools", "other.py"), ("--evaluation", "steps")], ids=str)
def test_a_fork_for_whoever_goes_on_keeps_that_a_person_is_asked(place: Path, given: tuple[str, ...]) -> None:
    begun(place)
    (place / "other.py").write_text(TOOLS + LOOK)
    (place / "strict.toml").write_text('[approval]\nmode = "all"\n')
    forked = command(
        place, "tasks", "fork", "t", "--task-id", "f", *given, "--config", "strict.toml", "--detach"
    )
    assert forked.returncode == 0, forked.stderr
    assert "a person is asked about every call" in forked.stderr
    (made,) = [one["data"] for one in log(place, "f") if one["type"] == "task_forked"]
    assert made["policy"]["approval"] == "all"
    waits = command(place, "tasks", "resume", "f")
    assert waits.returncode == 5, waits.stderr
    assert not (place / "notes.txt").exists()


@pytest.mark.parametrize("given", [(), ("--tools", "tools.py")], ids=str)
def test_a_fork_that_says_that_nobody_is_asked_says_nothing_else(place: Path, given: tuple[str, ...]) -> None:
    begun(place)
    (place / "config.toml").write_text(STRICT)
    forked = command(place, "tasks", "fork", "t", "--task-id", "f", *given, "--approve", "never")
    assert (forked.returncode, noted(place)) == (0, "two\n"), forked.stderr
    assert "a person is asked" not in forked.stderr


@pytest.mark.parametrize("given", [(), ("--tools", "tools.py")], ids=str)
def test_a_fork_of_which_nobody_could_be_asked_is_not_stored(place: Path, given: tuple[str, ...]) -> None:
    begun(place, ask="--no-interactive")
    (place / "config.toml").write_text(STRICT)
    (place / "on").touch()
    refused = command(place, "tasks", "fork", "t", "--task-id", "f", *given, "--detach")
    assert refused.returncode == 2, refused.stderr
    assert "--approve never" in refused.stderr
    assert command(place, "tasks", "show", "f").returncode == 2
    forked = command(place, "tasks", "fork", "t", "--task-id", "f", *given, "--detach", "--approve", "never")
    assert forked.returncode == 0, forked.stderr


def test_a_task_that_was_begun_with_more_to_ask_goes_on_so_and_the_difference_is_told(place: Path) -> None:
    (place / "config.toml").write_text(STRICT)
    begun(place)
    (place / "config.toml").unlink()
    waits = resume(place, away=False)
    assert waits.returncode == 5, waits.stderr
    assert "says otherwise of [approval] mode: the task goes on as it was begun" in waits.stderr
    assert not (place / "notes.txt").exists()


def test_limits_that_are_others_here_are_told_and_those_of_the_log_count(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text(
        "[budget]\nmax_tool_calls = 1\n[orchestrator]\nmax_concurrent_tasks = 3\n"
    )
    done = resume(place, away=False)
    assert done.returncode == 0, done.stderr
    assert "says otherwise of [budget] max_tool_calls: the task goes on as it was begun" in done.stderr


def test_where_nobody_can_be_asked_nothing_is_lost_by_a_configuration_that_asks(place: Path) -> None:
    begun(place, ask="--no-interactive")
    (place / "on").touch()
    (place / "config.toml").write_text(STRICT)
    refused = resume(place, away=False)
    assert refused.returncode == 2
    assert "give --approve never to go on as it was begun" in refused.stderr


RULE = "[tools.rules.note]\nrequires_approval = true\n"


@pytest.mark.parametrize("strict", [STRICT, RULE], ids=["approval", "rules"])
def test_a_task_that_nobody_is_asked_about_goes_on_as_it_was_begun_when_somebody_says_so(
    place: Path, strict: str
) -> None:
    plan = {"steps": [{**PLAN["steps"][0], "requires_approval": False}, PLAN["steps"][1]]}
    (place / "plan.json").write_text(json.dumps(plan))
    ends = "\n    import os, signal, pathlib\n    if not pathlib.Path('on').exists(): os.kill(os.getpid(), signal.SIGKILL)"
    (place / "tools.py").write_text(TOOLS + LOOK.replace('"""Look."""', '"""Look."""' + ends))
    how = ("--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py", "--no-interactive")
    assert command(place, "run", "do it", "--task-id", "t", *how).returncode == -9
    (place / "on").touch()
    (place / "config.toml").write_text(strict)
    before = log(place)
    refused = resume(place, away=False)
    assert refused.returncode == 2
    assert "wants a person's yes to calls of 'note'" in refused.stderr
    assert "give --approve never to go on as it was begun" in refused.stderr
    assert log(place) == before, "it is not gone on with, nor ended"
    done = resume(place, "--approve", "never", away=False)
    assert (done.returncode, noted(place)) == (0, "two\n"), done.stderr


def test_a_rule_that_asks_is_told_where_a_person_can_be_asked(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text(RULE)
    waits = resume(place, away=False)
    assert waits.returncode == 5, waits.stderr
    assert "what needs a person's yes by it needs that" in waits.stderr
    assert "as it was begun" not in waits.stderr


def test_a_tool_that_is_denied_here_is_said_to_be(place: Path) -> None:
    begun(place)
    (place / "config.toml").write_text('[tools]\ndeny = ["note"]\n')
    denied = resume(place, away=False)
    assert denied.returncode == 2
    assert "goes on with 'note', and that may not be used here ([tools] deny)" in denied.stderr
    assert "as it was begun" not in denied.stderr
    assert "give those" not in denied.stderr
    assert not (place / "notes.txt").exists()


@pytest.mark.parametrize("pattern", ["wait_for_time", "wait_*"])
def test_so_is_a_wait(place: Path, pattern: str) -> None:
    waits = {"step_id": "b", "tool": "wait_for_time", "parameters": {"seconds": 0}, "dependencies": ["a"]}
    (place / "plan.json").write_text(json.dumps({"steps": [PLAN["steps"][0], waits]}))
    begun(place)
    (place / "config.toml").write_text(f'[tools]\ndeny = ["{pattern}"]\n')
    denied = resume(place, away=False)
    assert denied.returncode == 2
    assert "goes on with 'wait_for_time', and that may not be used here ([tools] deny)" in denied.stderr
    (place / "config.toml").unlink()
    assert resume(place, away=False).returncode == 0


@pytest.mark.parametrize("given", [(), ("--tools", "tools.py")], ids=str)
def test_a_fork_for_whoever_goes_on_keeps_the_rules_of_whoever_made_it(
    place: Path, given: tuple[str, ...]
) -> None:
    begun(place)
    (place / "strict.toml").write_text("[tools.rules.note]\nrequires_approval = true\n")
    forked = command(
        place, "tasks", "fork", "t", "--task-id", "f", *given, "--config", "strict.toml", "--detach"
    )
    assert forked.returncode == 0, forked.stderr
    waits = command(place, "tasks", "resume", "f")
    assert waits.returncode == 5, waits.stderr
    assert not (place / "notes.txt").exists()
    assert command(place, "tasks", "approve", "f").returncode == 0
    assert command(place, "tasks", "resume", "f").returncode == 0
