"""Lines of the README for the service, run as they are written; and what the reference says of its errors and limits."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import warm_command
from documents import ROOT, blocks_of
from test_howtos import environment

from replan.config.sections import Server
from replan.server.http.middleware import MOST_BODY_BYTES
from replan.server.http.protocol import MOST_HEAD_BYTES
from replan.server.problems import KINDS
from replan.server.shared import Pace


def lines(document: str) -> list[str]:
    """The commands of the first block that starts the service."""
    blocks = [block.text for block in blocks_of(ROOT / document, "console") if "replan serve" in block.text]
    return [
        line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_readme_s_lines_for_the_service_work(tmp_path: Path) -> None:
    serve, *calls = lines("README.md")
    env = {
        **environment(tmp_path),
        "APP_DATABASE_SERVICE_CONNECTION_STRING": f"sqlite:///{tmp_path / 'tasks.db'}",
    }
    arguments = (*serve.split()[1:], "--port", "0", "--json")
    process = warm_command.Process(arguments, ROOT, env)
    try:
        port = json.loads(process.stdout.readline())["urls"][0].rpartition(":")[2]
        said = [
            subprocess.run(
                ["sh", "-c", call.replace(":8080", f":{port}")],
                cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=True,
            ).stdout
            for call in calls
        ]  # fmt: skip
    finally:
        process.kill()
        process.communicate()
    assert said[0] == '{"task_id":"notes-1","status":"queued","new":true}'
    assert said[1].rstrip().splitlines()[-2] == "event: task_completed"
    assert json.loads(said[2])["is_success"] is True


def test_every_kind_of_problem_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/http.md").read_text("utf-8")
    told = {
        (name, int(status), title)
        for name, status, title in re.findall(r"^\| `([a-z-]+)` \| (\d+) \| (.*) \|$", text, re.MULTILINE)
    }
    assert told == {(kind.name, kind.status, kind.title) for kind in KINDS.values()}


def test_the_limits_of_the_reference_are_those_of_the_service() -> None:
    text = (ROOT / "docs/reference/http.md").read_text("utf-8")
    pace, server = Pace(), Server()
    for said in (
        f"| the head of a request | {MOST_HEAD_BYTES >> 10} KiB, within {pace.header_secs:g} s |",
        f"| a body | {MOST_BODY_BYTES >> 20} MiB; within {pace.body_secs:g} s",
        f"`[server] request_timeout_secs` ({server.request_timeout_secs:g})",
        f"`[server] max_connections` ({server.max_connections})",
        f"`[server] max_queued_tasks` ({server.max_queued_tasks})",
        f"is a sign of life, after {pace.beat_secs:g} s of silence",
        f"takes nothing for {pace.stuck_secs:g} s is cut off",
    ):
        assert said in text, said
