"""`replan serve --workers`: the service, and the workers that it keeps."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import warm_command
from cli_process import environment
from service_process import Service, plan, serving, step

TOOLS = '''
import os

from replan import tool


@tool(effect="reads", volatile=True)
def who() -> int:
    """The process that calls."""
    return os.getpid()
'''


def asked(service: Service, name: str) -> int:
    """The process that has driven a task."""
    with service.client() as http:
        made = http.post("/tasks", json={**plan(step("w", "who"), evaluation="steps"), "task_id": name})
        assert made.status_code == 202, made.text
        found = http.get(f"/tasks/{name}/result", params={"wait": 60})
        assert found.status_code == 200, found.text
        output: int = found.json()["final_output"]
        return output


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_drive_the_tasks_and_are_started_again_when_they_are_killed(
    tmp_path: Path, postgres_database: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[engine]\ntakeover_secs = 3\n")
    with serving(
        tmp_path,
        "--workers",
        "1",
        "--db",
        postgres_database,
        "--config",
        "config.toml",
        "--grace",
        "5",
        tools=TOOLS,
    ) as service:
        first = asked(service, "one")
        assert first != service.process.pid
        os.kill(first, signal.SIGKILL)
        second = asked(service, "two")
        assert second not in (first, service.process.pid)
        told = service.end()
    assert not lives(second)
    assert "worker 1 has ended (signal 9); another is started" in told


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--api-key", "k"], "APP_LLM_API_KEY"), ([], "PostgreSQL")],
    ids=["a key by hand", "a database for one process"],
)
def test_what_workers_cannot_have_is_said_at_once(tmp_path: Path, more: list[str], said: str) -> None:
    arguments = ("serve", "--port", "0", "--workers", "2", "--db", "sqlite:///t.db", *more)
    process = warm_command.Process(arguments, tmp_path, environment(tmp_path, None))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in told
