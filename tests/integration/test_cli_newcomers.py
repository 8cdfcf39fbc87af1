"""What a person meets at the command: short ids, commands to copy, files that are recognised, and one right hint."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from cli_process import BY_STEPS, folder, one_step, replan
from terminal import at_a_terminal

ONCE = '''
from replan import tool

@tool
def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount:g}"
'''
API = """
openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "http://127.0.0.1:9/v1"}]
paths:
  /pets:
    get: {operationId: listPets, responses: {"200": {description: pets}}}
"""


def _ids(home: Path) -> list[str]:
    return [row["task_id"] for row in json.loads(replan("tasks", "list", "--json", cwd=home).stdout)]


def test_a_task_is_named_by_its_beginning_or_as_the_last_one(tmp_path: Path) -> None:
    folder(tmp_path)
    for _ in range(2):
        assert replan(*BY_STEPS, cwd=tmp_path).returncode == 0
    assert replan(*BY_STEPS, "--task-id", "nightly-report", cwd=tmp_path).returncode == 0
    last, newer, older = _ids(tmp_path)
    assert replan("tasks", "result", "last", cwd=tmp_path).stdout == "7\n"
    assert replan("tasks", "result", "night", cwd=tmp_path).stdout == "7\n"
    assert replan("tasks", "show", older.removeprefix("task_"), cwd=tmp_path).stdout.startswith(older)
    several = replan("tasks", "show", newer[:8], cwd=tmp_path)
    assert several.returncode == 2
    assert newer in several.stderr
    assert older in several.stderr
    for name in ("ni", "ta", newer.removeprefix("task_")[:2]):
        short = replan("tasks", "show", name, cwd=tmp_path)
        assert (short.returncode, "write 3 characters of it at least" in short.stderr) == (2, True), (
            short.stderr
        )
    near = replan("tasks", "show", "nightly-reprot", cwd=tmp_path)
    assert near.returncode == 2
    assert "did you mean 'nightly-report'?" in near.stderr
    assert last == "nightly-report"
    completed = replan(
        cwd=tmp_path,
        env={
            "_REPLAN_COMPLETE": "complete_bash",
            "COMP_WORDS": "replan tasks show nig",
            "COMP_CWORD": "3",
            "_TYPER_COMPLETE_ARGS": "replan tasks show nig",
        },
    )
    assert "nightly-report" in completed.stdout


def test_the_store_is_read_without_importing_or_starting_any_tool(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "t", cwd=tmp_path).returncode == 0
    (tmp_path / "broken.py").write_text("this is no Python", "utf-8")
    (tmp_path / "config.toml").write_text(
        '[tools]\nsources = ["broken.py", "mcp:no-such-program"]\n', "utf-8"
    )
    for command, code in (
        (("list",), 0),
        (("show", "t"), 0),
        (("result", "t"), 0),
        (("output", "t", "sum"), 0),
        (("plan", "t"), 0),
        (("watch", "t"), 0),
        (("cancel", "t"), 2),
        (("delete", "t"), 0),
    ):
        ran = replan("tasks", *command, cwd=tmp_path)
        assert ran.returncode == code, ran.stderr
        assert "broken" not in ran.stderr
        assert "no-such-program" not in ran.stderr
    assert "broken" in replan("tools", "list", cwd=tmp_path).stderr


def test_who_reads_makes_no_database(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--db", "tasks.db", cwd=tmp_path).returncode == 0
    for command in (("list",), ("show", "x"), ("cancel", "x"), ("answer", "x", "yes")):
        missed = replan("tasks", *command, "--db", "taks.db", cwd=tmp_path)
        assert missed.returncode == 2
        assert "there is no database taks.db; did you mean tasks.db?" in missed.stderr
    assert not (tmp_path / "taks.db").exists()


def test_commands_that_are_printed_run_as_they_are(tmp_path: Path) -> None:
    folder(tmp_path, one_step("pay", amount=3))
    (tmp_path / "tools.py").write_text(ONCE, "utf-8")
    (tmp_path / "own.toml").write_text('[approval]\nmode = "all"\n', "utf-8")
    where = ("--db", "a folder.db", "--config", "own.toml")
    ran = replan(*BY_STEPS, "--interactive", *where, cwd=tmp_path)
    assert ran.returncode == 5
    agree = re.search(r"to agree: +replan (.*)", ran.stderr)
    assert agree is not None
    agreed = replan(*shlex.split(agree[1]), cwd=tmp_path)
    assert agreed.returncode == 0, agreed.stderr
    go_on = re.search(r"continue: replan (.*)", agreed.stderr)
    assert go_on is not None
    ended = replan(*shlex.split(go_on[1]), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "paid 3\n")


def test_events_of_a_resumed_task_go_on_to_its_end(tmp_path: Path) -> None:
    folder(tmp_path, one_step("pay", amount=3))
    (tmp_path / "tools.py").write_text(ONCE, "utf-8")
    ran = replan(*BY_STEPS, "--interactive", "--approve", "all", "--task-id", "t", cwd=tmp_path)
    assert ran.returncode == 5
    assert replan("tasks", "approve", "t", cwd=tmp_path).returncode == 0
    resumed = replan("tasks", "resume", "t", "--events", cwd=tmp_path)
    told = [json.loads(line)["type"] for line in resumed.stdout.splitlines()]
    assert resumed.returncode == 0
    assert told[-1] == "task_completed"
    assert "task_waiting" not in told


def test_the_picture_is_drawn_again_after_an_answer(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(ONCE, "utf-8")
    steps = [
        {"step_id": "first", "tool": "pay", "parameters": {"amount": 1}},
        {"step_id": "second", "tool": "pay", "parameters": {"amount": 2}, "dependencies": ["first"]},
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"steps": steps}), "utf-8")
    command = (*BY_STEPS, "--interactive", "--approve", "all", "--task-id", "t", "--db", "r.db")
    with at_a_terminal(*command, cwd=tmp_path) as terminal:
        terminal.wait_for("JSON object: ")
        terminal.type("yes")
        terminal.wait_for("in step 'second'?")
        before = len(terminal.shown)
        terminal.wait_for("JSON object: ")
        terminal.type("yes")
        assert terminal.ended() == 0
        assert "✓ second" in terminal.shown[before:]


@pytest.mark.parametrize("spec", ["api.yaml", "./api.yaml", "api.json"])
def test_an_openapi_document_is_recognised(tmp_path: Path, spec: str) -> None:
    import yaml

    (tmp_path / "api.yaml").write_text(API, "utf-8")
    (tmp_path / "api.json").write_text(json.dumps(yaml.safe_load(API)), "utf-8")
    listed = replan("tools", "list", "--tools", spec, "--json", cwd=tmp_path)
    assert [tool["id"] for tool in json.loads(listed.stdout)] == ["listPets"]


def test_a_source_that_is_named_twice_is_there_once(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "config.toml").write_text('[tools]\nsources = ["tools.py", "./tools.py"]\n', "utf-8")
    for given in (
        (),
        ("--tools", "tools.py"),
        ("--tools", str(tmp_path / "tools.py"), "--tools", "tools.py"),
    ):
        listed = json.loads(replan("tools", "list", *given, "--json", cwd=tmp_path).stdout)
        assert [tool["id"] for tool in listed] == ["count", "add", "fail", "wait_for_ever", "stubborn"]


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("run", "What", "is", "this?"), "put the task in quotes: replan run 'What is this?'"),
        (("run", "x", "--tools", "other.yaml"), "the file other.yaml is not an OpenAPI document"),
        (("run", "x", "--tools", "none.yml"), "the file none.yml is not there"),
        (("run", "x", "--record", "."), "--record . is a folder; name a file in it"),
        (("run", "x", "--record", "no/where.jsonl"), "there is no folder no"),
        (("run", "x", "--api-key", "env:NO_SUCH_KEY"), "--api-key: the environment has no NO_SUCH_KEY"),
        (("run", "x", "--api-key", "file:no.key"), "--api-key: the file no.key cannot be read"),
        (("tasks", "plan", "last"), "there is no last task"),
    ],
)
def test_a_slip_gets_the_one_right_hint(tmp_path: Path, command: tuple[str, ...], hint: str) -> None:
    (tmp_path / "other.yaml").write_text("a: 1\n", "utf-8")
    ran = replan(*command, cwd=tmp_path)
    assert ran.returncode == 2
    assert hint in ran.stderr
    assert not ran.stdout


def test_plans_are_drawn_in_the_forms_of_others(tmp_path: Path) -> None:
    folder(tmp_path)
    dry = (*BY_STEPS, "--plan-only", "--format")
    assert replan(*dry, "mermaid", cwd=tmp_path).stdout.startswith("flowchart LR\n")
    assert replan(*dry, "dot", cwd=tmp_path).stdout.startswith("digraph plan {\n")
    assert replan(*dry, "svg", cwd=tmp_path).stdout.startswith("<svg ")
    assert _ids(tmp_path) == []
    assert replan(*BY_STEPS, "--task-id", "t", cwd=tmp_path).returncode == 0
    assert (
        "class s1,s2,s3 succeeded" in replan("tasks", "plan", "t", "--format", "mermaid", cwd=tmp_path).stdout
    )
    seen = replan("tasks", "graph", "t", cwd=tmp_path)
    assert (seen.returncode, seen.stdout.splitlines()[0]) == (0, "t · succeeded · plan 1")
    assert "critical path (*): " in seen.stdout
    both = replan("tasks", "graph", "t", "--dot", "--svg", cwd=tmp_path)
    assert (both.returncode, "one of --dot and --svg, not both" in both.stderr) == (2, True)
    (tmp_path / "again.json").write_text(replan("tasks", "plan", "t", cwd=tmp_path).stdout, "utf-8")
    again = replan("run", "--plan", "again.json", *BY_STEPS[3:], cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "7\n")
    missing = replan("tasks", "plan", "t", "--version", "9", cwd=tmp_path)
    assert (missing.returncode, "there are: 1" in missing.stderr) == (2, True)


def test_tasks_are_deleted_only_when_they_have_ended_or_by_force(tmp_path: Path) -> None:
    folder(tmp_path, one_step("pay", amount=3))
    (tmp_path / "tools.py").write_text(ONCE, "utf-8")
    assert (
        replan(*BY_STEPS, "--interactive", "--approve", "all", "--task-id", "t", cwd=tmp_path).returncode == 5
    )
    kept = replan("tasks", "delete", "t", cwd=tmp_path)
    assert (kept.returncode, "has not ended (waiting)" in kept.stderr) == (2, True)
    assert replan("tasks", "delete", "t", "--force", cwd=tmp_path).returncode == 0
    assert _ids(tmp_path) == []


def test_a_waiting_task_is_shown_with_the_commands_that_answer_it(tmp_path: Path) -> None:
    folder(tmp_path)
    begun = replan(*BY_STEPS, "--approve", "all", "--interactive", "--task-id", "t", cwd=tmp_path)
    assert begun.returncode == 5, begun.stderr
    shown = replan("tasks", "show", "t", cwd=tmp_path).stdout
    for command in ("replan tasks approve t appr_", "replan tasks reject t appr_", "replan tasks resume t"):
        assert command in shown


def test_a_given_plan_without_a_model_is_told_of_judging_by_steps(tmp_path: Path) -> None:
    folder(tmp_path)
    told = replan("run", "--plan", "plan.json", "--tools", "tools.py", cwd=tmp_path)
    assert (told.returncode, "--evaluation steps" in told.stderr) == (2, True), told.stderr


def test_a_first_folder_is_written_once_and_works(tmp_path: Path) -> None:
    made = replan("init", "first", cwd=tmp_path)
    assert made.returncode == 0
    assert "next: cd first && replan doctor && replan run " in made.stderr
    home = tmp_path / "first"
    listed = json.loads(replan("tools", "list", "--json", cwd=home).stdout)
    assert [tool["id"] for tool in listed] == ["word_count", "add_note"]
    (home / "tools.py").write_text("# mine\n", "utf-8")
    again = replan("init", "first", cwd=tmp_path)
    assert (again.returncode, "stays as it is" in again.stderr) == (0, True)
    assert (home / "tools.py").read_text("utf-8") == "# mine\n"


def test_doctor_looks_at_the_sources_of_tools(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "config.toml").write_text('[tools]\nsources = ["tools.py"]\n', "utf-8")
    checks = json.loads(replan("doctor", "--json", cwd=tmp_path).stdout)["checks"]
    assert next(one for one in checks if one["name"] == "tools tools")["found"] == "5 tools"
    bad = json.loads(replan("doctor", "--tools", "mcp:no-such-program", "--json", cwd=tmp_path).stdout)
    assert any(one["name"] == "tools" and one["state"] == "problem" for one in bad["checks"])
