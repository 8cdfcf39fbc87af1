"""Every bad input gets one clear message on stderr, nothing on stdout, and its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import BY_STEPS, COMMAND, environment, folder, one_step, replan

from replan.cli.terminal.exits import of_error
from replan.errors import StoreFull
from replan.testing import ScriptedEndpoint

CYCLE = {
    "steps": [
        {"step_id": "a", "tool": "count", "parameters": {"text": "${b.output}"}},
        {"step_id": "b", "tool": "count", "parameters": {"text": "${a.output}"}},
    ]
}
STAR = "def many(*args: int) -> int:\n    '''Add.'''\n    return sum(args)\n"

CASES = [
    pytest.param(
        {"config.toml": "[server]\nport = = 1\n"},
        BY_STEPS,
        2,
        ["config.toml:2:8: not valid TOML"],
        id="bad TOML",
    ),
    pytest.param(
        {"config.toml": "[orchestrator]\nsucess_threshold = 1\n"},
        BY_STEPS,
        2,
        ['config.toml:2: unknown key "sucess_threshold"', 'did you mean "success_threshold"'],
        id="unknown key",
    ),
    pytest.param(
        {}, (*BY_STEPS, "--config", "none.toml"), 2, ["none.toml: there is no such"], id="no config file"
    ),
    pytest.param({}, (*BY_STEPS[:-1], "tols.py"), 2, ["there is no file tols.py"], id="unknown tools file"),
    pytest.param({"star.py": STAR}, (*BY_STEPS[:-1], "star.py"), 2, ["many", "*args"], id="tool with *args"),
    pytest.param({"plan.json": json.dumps(CYCLE)}, BY_STEPS, 2, ["form a cycle", "a → b"], id="cyclic plan"),
    pytest.param(
        {"plan.json": '{"steps": [}'}, BY_STEPS, 2, ["plan.json:1:12: not valid JSON"], id="bad plan file"
    ),
    pytest.param(
        {"plan.json": json.dumps(one_step("cuont", text="x"))},
        BY_STEPS,
        2,
        ["cuont", "count"],
        id="unknown tool",
    ),
    pytest.param(
        {"plan.json": json.dumps({**one_step("count", path="a.txt"), "more": "the rest"})},
        BY_STEPS,
        2,
        ["the plan does not pass the checks", "`more`", "give the whole plan"],
        id="a first part that nobody goes on with",
    ),
    pytest.param(
        {}, ("run", "x", "--json", "--events"), 2, ["--json and --events exclude"], id="options that clash"
    ),
    pytest.param({}, ("run", "x", "-m", "novalue"), 2, ["expected KEY=VALUE"], id="bad metadata"),
    pytest.param({}, ("run",), 2, ["say what is to be done"], id="no task"),
    pytest.param({}, ("rnu", "x"), 2, ["No such command 'rnu'. Did you mean 'run'?"], id="unknown command"),
    pytest.param(
        {},
        ("run", "Count", "--tools", "tools.py"),
        2,
        ["no model is configured", "`replan model pull`", "--endpoint"],
        id="no model",
    ),
    pytest.param({}, (*BY_STEPS, "--db", "mysql://h/d"), 2, ["mysql://"], id="unknown database"),
    pytest.param(
        {"x.db": "no database at all, " * 100},
        (*BY_STEPS, "--db", "sqlite:///x.db"),
        2,
        ["x.db"],
        id="no database",
    ),
]


@pytest.mark.parametrize(("files", "args", "code", "parts"), CASES)
def test_a_bad_input_is_told_on_stderr_with_exit_code_2(
    tmp_path: Path, files: dict[str, str], args: tuple[str, ...], code: int, parts: list[str]
) -> None:
    folder(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = replan(*args, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process that holds the database `x.db` until its transaction ends."""
    folder(tmp_path)
    sqlite3.connect(tmp_path / "x.db").close()
    assert replan("tasks", "list", "--db", "sqlite:///x.db", cwd=tmp_path).returncode == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_a_locked_database_is_waited_for_and_told(locked: sqlite3.Connection, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, *BY_STEPS, "--db", "sqlite:///x.db"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as running:
        assert running.stderr is not None
        assert any("x.db is locked by another process; waiting for it" in line for line in running.stderr)
        locked.execute("ROLLBACK")
        answer, _ = running.communicate()
    assert running.returncode == 0
    assert answer


@pytest.mark.prove  # it takes as long as a database is waited for
@pytest.mark.usefixtures("locked")
def test_a_database_that_stays_locked_is_told_with_exit_code_2(tmp_path: Path) -> None:
    done = replan(*BY_STEPS, "--db", "sqlite:///x.db", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "x.db is locked by another process; try again when it is done" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="its limits are others")
def test_a_full_disk_is_told_with_exit_code_2_and_the_task_can_be_resumed(tmp_path: Path) -> None:
    """Files may not grow over a limit, as on a full disk."""
    folder(tmp_path, one_step("count", text="x" * 300_000))
    sqlite3.connect(tmp_path / "x.db").close()
    assert replan("tasks", "list", "--db", "sqlite:///x.db", cwd=tmp_path).returncode == 0
    limited = ["/bin/sh", "-c", 'ulimit -f 1000; exec "$0" "$@"', *COMMAND, *BY_STEPS]
    done = subprocess.run(
        [*limited, "--db", "sqlite:///x.db", "--task-id", "t"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "x.db cannot grow" in done.stderr
    assert "free some space, then resume the task" in done.stderr
    assert "Traceback" not in done.stderr
    on = replan("tasks", "resume", "t", "--db", "sqlite:///x.db", cwd=tmp_path)
    assert on.returncode == 0, on.stderr


def test_a_dead_endpoint_fails_the_task_and_names_the_address(tmp_path: Path) -> None:
    folder(tmp_path)
    url = ScriptedEndpoint.refused_url()
    done = replan(
        "run", "Count", "--tools", "tools.py", "--endpoint", url, "--model", "m", "--json", cwd=tmp_path
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert (result["status"], result["is_success"]) == ("failed", False)
    assert url in result["failure"]["reason"]
    assert "why: " in done.stderr


def test_the_older_services_configuration_runs_with_warnings_only(tmp_path: Path) -> None:
    folder(tmp_path)
    older = Path(__file__).parent.parent / "unit" / "config" / "older_service.toml"
    shutil.copy(older, tmp_path / "config.toml")
    done = replan(*BY_STEPS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7\n"
    assert "warning: config.toml:80: [database_service] service_name has no use any more" in done.stderr


UNEXPECTED: list[Any] = [
    pytest.param(
        ZeroDivisionError("division by zero"), {}, 1, "unexpected ZeroDivisionError", False, id="unexpected"
    ),
    pytest.param(ZeroDivisionError("x"), {"REPLAN_DEBUG": "1"}, 1, "Traceback", True, id="debugging"),
    pytest.param(StoreFull("the disk is full"), {}, 2, "error: the disk is full", False, id="deliberate"),
]


@pytest.mark.parametrize(("error", "env", "code", "part", "traceback"), UNEXPECTED)
def test_an_error_becomes_a_message_and_an_exit_code(
    error: Exception,
    env: dict[str, str],
    code: int,
    part: str,
    traceback: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(type(error)) as caught:
        raise error
    assert of_error(caught.value, env) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert part in said.err
    assert ("Traceback" in said.err) == traceback
    if code == 1 and not traceback:
        assert "REPLAN_DEBUG=1" in said.err


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        pytest.param({"SSL_CERT_FILE": "/nowhere/ca.pem"}, "SSL_CERT_FILE=/nowhere/ca.pem", id="no file"),
        pytest.param({"SSL_CERT_FILE": os.devnull}, f"SSL_CERT_FILE={os.devnull}", id="no certificates"),
        pytest.param(
            {"ALL_PROXY": "gopher://u:hidden-word@127.0.0.1:9"},
            "the proxy that the environment names",
            id="proxy",
        ),
    ],
)
def test_what_the_environment_says_of_connections_is_named_and_not_asked_about_this_machine(
    variables: dict[str, str], named: str, tmp_path: Path
) -> None:
    folder(tmp_path)
    far = ("run", "hi", "--endpoint", "https://models.invalid/v1", "--model", "m")
    done = replan(*far, cwd=tmp_path, env=variables)
    assert done.returncode in (1, 2)
    assert named in done.stderr
    assert "fault of Replan" not in done.stderr
    assert "hidden-word" not in done.stderr
    with ScriptedEndpoint({"execution_plan": {"steps": []}, "evaluation": JUDGED}) as endpoint:
        near = replan("run", "hi", "--endpoint", endpoint.url, cwd=tmp_path, env=variables)
    assert (near.returncode, near.stdout) == (0, "done\n"), near.stderr


JUDGED = {
    "overall_score": 95, "is_successful": True, "final_output": "done",
    "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 95, "reliability": 95},
}  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">&-", 0, "stdout is closed: nobody gets the answer"),
        (">/dev/full", 2, "stdout cannot be written"),
        ("2>&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full_are_no_fault_of_replan(
    redirected: str, code: int, said: str, tmp_path: Path
) -> None:
    folder(tmp_path)
    line = shlex.join([*COMMAND, *BY_STEPS, "--task-id", "t-1"])
    done = subprocess.run(
        ["sh", "-c", f"{line} {redirected}"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "fault of Replan" not in done.stderr
    shown = replan("tasks", "result", "t-1", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (0, "7\n"), shown.stderr
