"""Secrets on the command line: given by source, masked everywhere, found again or asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan
from secret_world import verdict

from replan.testing import EndpointFault, ScriptedEndpoint

TOOLS = '''
from typing import Optional

from pydantic import SecretStr

from replan import tool


@tool(effect="reads")
def enter(api_key: SecretStr, pin: Optional[SecretStr] = None) -> dict:
    """Enter with a key."""
    key = api_key.get_secret_value()
    return {"said": f"entered with {key}", "letters": len(key)}


@tool(effect="reads")
def count(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


@tool(effect="reads")
def deny(api_key: SecretStr) -> str:
    """Deny, and say why too exactly."""
    raise RuntimeError(f"{api_key.get_secret_value()} is wrong")
'''
PLAN = {
    "steps": [
        {"step_id": "a", "tool": "enter", "parameters": {"api_key": "${metadata.api_key}"}},
        {"step_id": "b", "tool": "count", "parameters": {"text": "${a.output.said}"}},
    ]
}
KEY = "k3y-on-the-command-line"
BY_STEPS = ("run", "--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py", "--db", "log.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "key.txt").write_text(KEY + "\n")
    return tmp_path


def on_disk(folder: Path) -> bytes:
    """Every byte that Replan has left behind."""
    own = {"tools.py", "plan.json", "key.txt"}
    return b"".join(f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.name not in own)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(("--secret", "api_key=env:MY_KEY"), id="from the environment"),
        pytest.param(("--secret", "api_key=file:key.txt"), id="from a file"),
        pytest.param(("-m", f"api_key={KEY}"), id="as metadata of such a name"),
    ],
)
def test_a_secret_reaches_the_tool_and_nothing_else(folder: Path, given: tuple[str, str]) -> None:
    done = replan(*BY_STEPS, *given, "--events", "--task-id", "t1", cwd=folder, env={"MY_KEY": KEY})
    assert done.returncode == 0, done.stderr
    shown = replan("tasks", "show", "t1", "--db", "log.db", "--json", cwd=folder)
    result = replan("tasks", "result", "t1", "--db", "log.db", "--json", cwd=folder)
    assert json.loads(result.stdout)["final_output"] == len(f"entered with {KEY}"), (
        "the real value was referred to"
    )
    for text in (done.stdout, done.stderr, shown.stdout, result.stdout):
        assert KEY not in text
    assert KEY.encode() not in on_disk(folder)
    assert "***" in done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (f"api_key={KEY}", "env:VARIABLE or NAME=file:PATH"),
        ("api_key=env:NOT_THERE", "has no NOT_THERE"),
        ("api_key=file:nothing.txt", "nothing.txt cannot be read"),
        (KEY, "expected NAME=env:VARIABLE"),
    ],
)
def test_a_secret_that_cannot_be_had_is_an_input_error_that_does_not_show_it(
    folder: Path, given: str, says: str
) -> None:
    done = replan(*BY_STEPS, "--secret", given, cwd=folder)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert KEY not in done.stderr


WAITING = {"steps": [{**PLAN["steps"][0], "requires_approval": True}, PLAN["steps"][1]]}


@pytest.mark.parametrize(
    ("begun", "resumed", "code"),
    [
        pytest.param(("--secret", "api_key=env:MY_KEY"), (), 0, id="found where the log says"),
        pytest.param(("-m", f"api_key={KEY}"), ("--secret", "api_key=env:MY_KEY"), 0, id="given again"),
        pytest.param(("-m", f"api_key={KEY}"), (), 2, id="not given again"),
        pytest.param(("-m", f"api_key={KEY}"), ("--secret", "other=env:MY_KEY"), 2, id="another one"),
    ],
)
def test_a_task_that_is_resumed_has_its_secrets_or_says_what_to_give(
    folder: Path, begun: tuple[str, str], resumed: tuple[str, ...], code: int
) -> None:
    (folder / "plan.json").write_text(json.dumps(WAITING))
    env = {"MY_KEY": KEY}
    waits = replan(*BY_STEPS, *begun, "--interactive", "--task-id", "t1", cwd=folder, env=env)
    assert waits.returncode == 5, waits.stderr
    assert replan("tasks", "approve", "t1", "--db", "log.db", cwd=folder).returncode == 0
    done = replan("tasks", "resume", "t1", "--db", "log.db", *resumed, cwd=folder, env=env)
    assert done.returncode == code, done.stderr
    if code:
        assert "api_key" in done.stderr
        assert replan("tasks", "resume", "t1", "--db", "log.db", "--secret", "api_key=file:key.txt", cwd=folder).returncode == 0  # fmt: skip
    assert KEY.encode() not in on_disk(folder)


ANSWERS: dict[str, Any] = {
    "execution_plan": {"steps": [{"step_id": "b", "tool": "count", "parameters": {"text": "abc"}}]},
    "evaluation": verdict(95, "three", success=True),
}


def test_a_line_end_behind_a_key_is_cut(folder: Path) -> None:
    with ScriptedEndpoint(ANSWERS, api_key=KEY) as endpoint:
        done = replan(
            "run", "Count abc", "--tools", "tools.py", "--endpoint", endpoint.url, "--db", "log.db",
            cwd=folder, env={"APP_LLM_API_KEY": KEY + "\r\n"},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "three\n"), done.stderr


def test_a_key_that_http_cannot_carry_is_a_configuration_error(folder: Path) -> None:
    done = replan("run", "Count abc", "--tools", "tools.py", "--endpoint", ScriptedEndpoint.refused_url(),
                  cwd=folder, env={"APP_LLM_API_KEY": f"two\nlines-{KEY}"})  # fmt: skip
    assert (done.returncode, "APP_LLM_API_KEY" in done.stderr) == (2, True), done.stderr
    assert KEY not in done.stderr


def test_an_endpoint_that_repeats_key_and_password_tells_nobody(folder: Path) -> None:
    fault = EndpointFault(status=401, message=f"no such key: {KEY} of bob:pass-in-the-url")
    with ScriptedEndpoint(ANSWERS, faults=[fault] * 6) as endpoint:
        url = endpoint.url.replace("http://", "http://bob:pass-in-the-url@")
        done = replan(
            "run", "Count abc", "--tools", "tools.py", "--endpoint", url, "--model", "scripted", "--db", "log.db",
            "--record", "calls.jsonl", "--events", "--task-id", "t1", cwd=folder, env={"APP_LLM_API_KEY": KEY},
        )  # fmt: skip
        assert done.returncode != 0
        shown = replan("tasks", "show", "t1", "--db", "log.db", cwd=folder)
    for secret in (KEY, "pass-in-the-url"):
        assert secret not in done.stdout + done.stderr + shown.stdout
        assert secret.encode() not in on_disk(folder)


def test_a_key_that_runs_out_in_mid_task_is_replaced_and_the_task_resumed(folder: Path) -> None:
    def planned(_: Any) -> Any:
        endpoint.api_key = "another"
        return {"steps": [{"step_id": "b", "tool": "count", "parameters": {"text": "abc"}}]}

    with ScriptedEndpoint({**ANSWERS, "execution_plan": planned}, api_key=KEY) as endpoint:
        begun = replan(
            "run", "Count abc", "--tools", "tools.py", "--endpoint", endpoint.url, "--db", "log.db",
            "--task-id", "t1", cwd=folder, env={"APP_LLM_API_KEY": KEY},
        )  # fmt: skip
        assert begun.returncode == 5, begun.stderr
        assert "401" in begun.stderr
        assert "tasks resume t1" in begun.stderr
        shown = replan("tasks", "show", "t1", "--db", "log.db", cwd=folder)
        assert "401" in shown.stdout
        assert "tasks answer" not in shown.stdout + begun.stderr
        asked = len(endpoint.requests)
        held = replan(
            "tasks", "resume", "t1", "--db", "log.db", cwd=folder, env={"APP_LLM_API_KEY": "another"}
        )
        assert (held.returncode, f"--endpoint {endpoint.url}" in held.stderr) == (2, True), held.stderr
        assert len(endpoint.requests) == asked, "another key goes nowhere by what a log says"
        env = {"APP_LLM_API_KEY": "another", "APP_LLM_ENDPOINT": endpoint.url}
        done = replan("tasks", "resume", "t1", "--db", "log.db", cwd=folder, env=env)
    assert (done.returncode, done.stdout) == (0, "three\n"), done.stderr


def test_a_task_goes_on_with_the_endpoint_that_it_was_begun_with(folder: Path) -> None:
    plan = {
        "steps": [{"step_id": "b", "tool": "count", "parameters": {"text": "abc"}, "requires_approval": True}]
    }
    with ScriptedEndpoint({**ANSWERS, "execution_plan": plan}) as endpoint:
        begun = replan(
            "run", "Count abc", "--tools", "tools.py", "--endpoint", endpoint.url, "--db", "log.db",
            "--interactive", "--task-id", "t1", cwd=folder,
        )  # fmt: skip
        assert begun.returncode == 5, begun.stderr
        assert replan("tasks", "approve", "t1", "--db", "log.db", cwd=folder).returncode == 0
        done = replan("tasks", "resume", "t1", "--db", "log.db", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "three\n"), done.stderr


@pytest.mark.parametrize(
    ("again", "env"),
    [
        pytest.param(("--api-key", "env:MINE"), {"MINE": KEY}, id="named again"),
        pytest.param(("--api-key", "file:key.txt"), {}, id="from a file"),
        pytest.param((), {"APP_LLM_API_KEY": KEY}, id="configured by now"),
    ],
)
def test_a_task_begun_with_a_key_asks_for_it_before_it_goes_on(
    folder: Path, again: tuple[str, ...], env: dict[str, str]
) -> None:
    plan = {
        "steps": [{"step_id": "b", "tool": "count", "parameters": {"text": "abc"}, "requires_approval": True}]
    }
    with ScriptedEndpoint({**ANSWERS, "execution_plan": plan}, api_key=KEY) as endpoint:
        begun = replan(
            "run", "Count abc", "--tools", "tools.py", "--endpoint", endpoint.url, "--api-key", "env:MINE",
            "--db", "log.db", "--interactive", "--task-id", "t1", cwd=folder, env={"MINE": KEY},
        )  # fmt: skip
        assert begun.returncode == 5, begun.stderr
        assert "replan tasks resume t1 --api-key env:MINE --db log.db\n" in begun.stderr
        assert begun.stderr.count("--api-key") == 1, "who answers needs no key"
        assert replan("tasks", "approve", "t1", "--db", "log.db", cwd=folder).returncode == 0
        lacks = replan("tasks", "resume", "t1", "--db", "log.db", cwd=folder)
        assert (lacks.returncode, "--api-key" in lacks.stderr) == (2, True), lacks.stderr
        done = replan("tasks", "resume", "t1", "--db", "log.db", *again, cwd=folder, env=env)
    assert (done.returncode, done.stdout) == (0, "three\n"), done.stderr
    assert KEY.encode() not in on_disk(folder)


def test_calling_a_tool_by_hand_shows_no_secret_in_its_error(folder: Path) -> None:
    done = replan("tools", "call", "deny", f"api_key={KEY}", "--tools", "tools.py", cwd=folder)
    assert done.returncode != 0
    assert "*** is wrong" in done.stderr
    assert KEY not in done.stderr + done.stdout


SERVER = Path(__file__).parents[1] / "mcp_secret_server.py"
REPEATS = {
    "steps": [
        {"step_id": "a", "tool": "repeat", "parameters": {"word": "${metadata.word}"}},
        {"step_id": "b", "tool": "count", "parameters": {"text": "${a.output}"}, "requires_approval": True},
    ]
}


@pytest.mark.parametrize("argument", [f"--token {KEY}", f"--api-key={KEY}", f"--header 'Authorization: Bearer {KEY}'"])  # fmt: skip
def test_what_a_server_is_started_with_is_masked_and_asked_for_again(folder: Path, argument: str) -> None:
    (folder / "plan.json").write_text(json.dumps(REPEATS))
    spec = f"mcp:{sys.executable} {SERVER} {argument}"
    env = {"WORD": "a-word-of-the-metadata"}
    begun = replan(
        *BY_STEPS, "--tools", spec, "--secret", "word=env:WORD", "--interactive", "--events", "--task-id", "t1",
        cwd=folder, env=env,
    )  # fmt: skip
    assert begun.returncode == 5, begun.stderr
    assert "I know" in begun.stdout
    assert replan("tasks", "approve", "t1", "--db", "log.db", cwd=folder).returncode == 0
    lacks = replan("tasks", "resume", "t1", "--db", "log.db", cwd=folder, env=env)
    assert (lacks.returncode, "with --tools" in lacks.stderr) == (2, True), lacks.stderr
    again = ("--tools", "tools.py", "--tools", spec)
    done = replan("tasks", "resume", "t1", "--db", "log.db", "--json", *again, cwd=folder, env=env)
    assert "held a secret, which no log keeps" in done.stdout, done.stderr
    for secret in (KEY, env["WORD"]):
        for text in (begun.stdout, begun.stderr, lacks.stderr, done.stdout, done.stderr):
            assert secret not in text
        assert secret.encode() not in on_disk(folder)


@pytest.mark.parametrize(
    "spec",
    [
        f"mcp:no-such-program --token {KEY}",
        f"mcp:{sys.executable} -c pass --token {KEY}",
        f"openapi:http://bob:{KEY}@127.0.0.1:9/openapi.json",
        f"http://127.0.0.1:9/mcp?token={KEY}",
        f"grpc://{KEY}@127.0.0.1:9",
        f"what://bob:{KEY}@host",
    ],
)
def test_tools_that_cannot_be_had_are_told_without_what_is_secret_in_their_names(
    folder: Path, spec: str
) -> None:
    done = replan(*BY_STEPS, "--tools", spec, "--secret", "api_key=file:key.txt", cwd=folder)
    assert KEY not in done.stdout + done.stderr
    assert "warning" in done.stderr or done.returncode == 2, done.stderr
    assert KEY.encode() not in on_disk(folder)


def test_doctor_and_config_show_tell_no_secret(folder: Path) -> None:
    (folder / "config.toml").write_text(
        f'[llm]\nendpoint = "http://bob:{KEY}@127.0.0.1:9/v1?key={KEY}"\n'
        f'[tools]\nsources = ["mcp:no-such-program --token {KEY}"]\n'
    )
    for command in (("config", "show"), ("config", "show", "--json"), ("doctor",), ("tools", "list")):
        done = replan(*command, cwd=folder)
        assert KEY not in done.stdout + done.stderr, command
        assert done.stdout or done.stderr
