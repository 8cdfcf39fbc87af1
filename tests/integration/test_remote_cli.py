"""`replan tools serve` and `replan tools conformance` as people call them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_command

COMMAND = [sys.executable, "-m", "replan.cli", "tools"]


def _env(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **more}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tools.py", "--token-env", "NOT_SET"], "NOT_SET, which --token-env names, is not set"),
        (["tools.py", "--host", "0.0.0.0"], "there is no token"),
        (["tools.py", "--port", "-1"], "neither a port for HTTP nor one for gRPC"),
        (["tools.py", "--tls-cert", "tools.py"], "belong together"),
        (["tools.py", "--port", "0", "--tls-cert", "tools.py", "--tls-key", "tools.py"], "PEM form"),
        (["nowhere.py"], "there is no file nowhere.py"),
    ],
)
def test_what_cannot_be_served_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "tools.py").write_text("def give() -> int:\n    return 1\n", encoding="utf-8")
    ended = warm_command.run(("tools", "serve", *arguments), tmp_path, _env(tmp_path), "", timeout=60)
    assert ended.returncode == 2
    assert words in " ".join(ended.stderr.split())


def test_a_server_is_started_checked_and_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            *("sh", "-c", "trap '' INT; exec \"$@\"", "sh"),  # as a script's `… &`
            *COMMAND,
            "serve",
            "replan.tools.remote.conformance_tools",
            "--port",
            "0",
            "--token-env",
            "TEST_TOKEN",
        ],
        cwd=tmp_path,
        env=_env(tmp_path, TEST_TOKEN="a-token"),
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("7 tools at http://127.0.0.1:")
            server.send_signal(signal.SIGINT)  # Ctrl-C is meant for the script
            arguments = ("tools", "conformance", line.split()[-1], "--token-env", "TEST_TOKEN")
            checked = warm_command.run(
                arguments, tmp_path, _env(tmp_path, TEST_TOKEN="a-token"), "", timeout=120
            )
            assert checked.returncode == 0, checked.stdout
            assert checked.stdout.rstrip().endswith("0 broken")
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        finally:
            server.kill()
    assert len(list((tmp_path / "state" / "replan").glob("tool-keys-*.db"))) == 1


def test_a_rule_that_is_not_kept_is_told_and_is_exit_code_1(tmp_path: Path) -> None:
    text = (
        "from replan import tool\nfrom replan.tools.remote.conformance_tools import *\n"
        "@tool(effect='once')\nasync def conformance_echo(value: object) -> object:\n    return value\n"
    )
    (tmp_path / "tools.py").write_text(text, encoding="utf-8")
    command = ("tools", "serve", "tools.py", "--port", "0", "--keys", "memory")
    server = warm_command.Process(command, tmp_path, _env(tmp_path))
    try:
        url = server.stdout.readline().split()[-1]
        checked = warm_command.run(("tools", "conformance", url), tmp_path, _env(tmp_path), "", timeout=120)
    finally:
        server.kill()
        server.communicate()
    assert checked.returncode == 1
    lines = checked.stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("broken"))
    assert lines[at].endswith("effects are told: echo reads, count is once")
    assert lines[at + 1].strip() == "conformance_echo should be `reads`"
    assert lines[-1].endswith("1 broken")
    assert sum(line.startswith("ok ") for line in lines) > 15
