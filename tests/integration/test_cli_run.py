"""`replan run` as people and programs use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_process import BY_STEPS, PLAN, folder, one_step, replan

from replan.testing import ScriptedEndpoint

EVALUATION = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": {"completeness": 95, "correctness": 96, "efficiency": 90, "reliability": 95},
    "successes": [],
    "failures": [],
    "improvement_suggestions": [],
    "final_output": "一共 7 个字母 🎉",
}
ANSWERS: dict[str, Any] = {"execution_plan": PLAN, "evaluation": EVALUATION}


def test_the_answer_alone_is_on_stdout_and_the_story_on_stderr(tmp_path: Path) -> None:
    done = replan(*BY_STEPS, cwd=folder(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7\n"
    for part in (
        "数一数字母 🚀",
        "one, two → sum",
        "a print of the tool",
        "a write of the tool",
        "a print of a child",
    ):
        assert part in done.stderr


def test_json_prints_the_result_object_and_nothing_else(tmp_path: Path) -> None:
    done = replan(*BY_STEPS, "--json", "-q", "-m", 'who={"name": "Zoë"}', cwd=folder(tmp_path))
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert {
        "task_id",
        "is_success",
        "final_score",
        "total_rounds",
        "final_output",
        "total_duration_secs",
    } <= set(result)
    assert (result["is_success"], result["final_output"]) == (True, 7)
    named = ("succeeded", "output", "score", "rounds")  # as the library has them
    assert [result[name] for name in named] == [True, 7, result["final_score"], 1]
    assert [step["output"] for step in result["steps"]][:2] == [
        {"text": "naïve", "letters": 5},
        {"text": "北京", "letters": 2},
    ]


def test_events_prints_the_log_as_lines_of_json_and_nothing_else(tmp_path: Path) -> None:
    done = replan(*BY_STEPS, "--events", "--task-id", "t-1", cwd=folder(tmp_path))
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["task_id"] for record in records} == {"t-1"}
    assert (records[0]["type"], records[-1]["type"]) == ("task_submitted", "task_completed")
    again = replan("tasks", "show", "t-1", "--events", cwd=tmp_path)
    assert again.stdout == done.stdout


def test_a_model_behind_an_endpoint_plans_and_judges(tmp_path: Path) -> None:
    folder(tmp_path)
    with ScriptedEndpoint(ANSWERS) as endpoint:
        args = ("--tools", "tools.py", "--endpoint", endpoint.url, "--model", "scripted")
        done = replan("run", "-", *args, "--record", "calls.jsonl", cwd=tmp_path, stdin="数一数 🚀\n")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "一共 7 个字母 🎉\n"
        assert endpoint.calls == {"execution_plan": 1, "evaluation": 1}
        assert "with 95 of 100 (2 model calls, 3 tool calls, " in done.stderr
    replay = ("run", "-", *args, "--replay", "calls.jsonl")
    replayed = replan(*replay, cwd=tmp_path, stdin="数一数 🚀\n")
    assert (replayed.returncode, replayed.stdout) == (0, done.stdout), replayed.stderr
    planned = replan(*replay, "--plan-only", cwd=tmp_path, stdin="数一数 🚀\n")
    assert planned.returncode == 0, planned.stderr
    assert [step["step_id"] for step in json.loads(planned.stdout)["steps"]] == ["one", "two", "sum"]


ENDS = [
    pytest.param(one_step("fail", why="没有 🚫"), {}, (), 1, "没有 🚫", id="a failed step"),
    pytest.param(one_step("wait_for_ever"), {}, ("--timeout", "0.2"), 4, "time limit", id="the timeout"),
    pytest.param(PLAN, {"APP_BUDGET_MAX_TOOL_CALLS": "1"}, (), 4, "max_tool_calls", id="a budget"),
]


@pytest.mark.parametrize(("plan", "env", "options", "code", "part"), ENDS)
def test_a_task_that_does_not_succeed_says_why_and_has_its_exit_code(
    tmp_path: Path, plan: dict[str, Any], env: dict[str, str], options: tuple[str, ...], code: int, part: str
) -> None:
    done = replan(*BY_STEPS, *options, "--json", cwd=folder(tmp_path, plan), env=env)
    assert done.returncode == code, done.stderr
    assert part in json.loads(done.stdout)["failure"]["reason"]
    assert part in done.stderr


def test_the_same_task_id_is_the_same_task_and_another_request_is_refused(tmp_path: Path) -> None:
    folder(tmp_path)
    first = replan(*BY_STEPS, "--task-id", "t-1", cwd=tmp_path)
    again = replan(*BY_STEPS, "--task-id", "t-1", cwd=tmp_path)
    other = replan(*BY_STEPS, "--task-id", "t-1", "-m", "x=1", cwd=tmp_path)
    assert (first.returncode, again.returncode, other.returncode) == (0, 0, 2)
    assert again.stdout == first.stdout == "7\n"
    assert "a print of the tool" not in again.stderr
    assert "t-1" in other.stderr


def test_ten_megabytes_come_out_whole(tmp_path: Path) -> None:
    folder(tmp_path, one_step("big"))
    (tmp_path / "tools.py").write_text(
        "def big() -> str:\n    '''Much.'''\n    return '长' * 3_500_000\n", encoding="utf-8"
    )
    done = replan(*BY_STEPS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "长" * 3_500_000 + "\n"
    assert len(done.stderr) < 5_000


def test_a_plain_locale_breaks_no_letter(tmp_path: Path) -> None:
    folder(tmp_path, one_step("count", text="北京 🚀"))
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = replan(*BY_STEPS, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"text": "北京 🚀", "letters": 4}


def test_a_reader_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    import subprocess

    from cli_process import COMMAND, environment

    folder(tmp_path)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*COMMAND, *BY_STEPS, "--events", "--task-id", "t-1"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    os.close(writing)
    os.close(reading)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
    assert replan("tasks", "result", "t-1", cwd=tmp_path).stdout == "7\n"


def test_help_and_version_load_nothing_heavy(tmp_path: Path) -> None:
    import subprocess
    import sys

    from cli_process import environment

    heavy = {
        "pydantic",
        "pydantic_ai",
        "openai",
        "httpx2",
        "xllamacpp",
        "sqlite3",
        "jsonschema_rs",
        "rich",
        "replan.app",
    }
    code = (
        "import sys\nsys.argv = ['replan', *sys.argv[1:]]\nfrom replan.cli import main\n"
        f"try:\n    main()\nfinally:\n    print('LOADED', sorted({heavy!r} & set(sys.modules)))"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, option],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0
        assert done.stdout.endswith("LOADED []\n")


def test_a_task_that_failed_leaves_nothing_on_stdout_that_looks_like_an_answer(tmp_path: Path) -> None:
    folder(tmp_path)
    poor = {
        **ANSWERS["evaluation"],
        "overall_score": 10,
        "is_successful": False,
        "final_output": "an invented 0",
    }
    with ScriptedEndpoint({**ANSWERS, "evaluation": poor}) as endpoint:
        args = ("--tools", "tools.py", "--endpoint", endpoint.url, "--model", "scripted", "--task-id", "t-1")
        done = replan("run", "count", *args, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "an invented 0" in done.stderr
        again = replan("run", "count", *args, cwd=tmp_path)
    assert "task t-1 is there already" in again.stderr


def test_a_tool_that_raises_is_named_with_its_place_and_is_no_fault_of_replan(tmp_path: Path) -> None:
    done = replan("tools", "call", "fail", "--tools", "tools.py", "why=because", cwd=folder(tmp_path))
    assert done.returncode == 1
    assert "tool 'fail' raised ValueError: because (tools.py:" in done.stderr
    assert "fault of Replan" not in done.stderr


@pytest.mark.parametrize("form", [(), ("--json", "-q"), ("--events",)], ids=["answer", "json", "events"])
def test_what_a_file_of_tools_prints_as_it_is_imported_is_kept_off_stdout(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    tools = folder(tmp_path) / "tools.py"
    noise = 'import sys\nprint("imported!")\nsys.stdout.write("no newline")\n'
    head, future, rest = tools.read_text("utf-8").partition("from __future__ import annotations\n")
    tools.write_text(f"{head}{future}{noise}{rest}" if future else noise + head, "utf-8")
    done = replan(*BY_STEPS, *form, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "imported!" not in done.stdout
    assert "no newline" not in done.stdout
    assert "imported!" in done.stderr
