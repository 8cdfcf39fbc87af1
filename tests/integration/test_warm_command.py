"""The command that tests start warm says and does what it does from cold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_process import BY_STEPS, folder, one_step, replan, replan_from_cold


def told(text: str, place: Path) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"task_[0-9a-z]{26}|\b\d+\.\d m?s\b|\[ +", "…", text)
    return "\n".join(sorted(text.replace(str(place), "here").splitlines()))


@pytest.mark.parametrize(
    ("arguments", "tool"),
    [
        pytest.param(BY_STEPS, "count", id="a task"),
        pytest.param((*BY_STEPS, "--quiet"), "fail", id="a task that fails"),
        pytest.param(("tools", "--tools", "tools.py"), "count", id="tools"),
        pytest.param(("--help",), "count", id="help"),
        pytest.param(("run", "--nope"), "count", id="a slip"),
        pytest.param(("config", "show"), "count", id="settings"),
        pytest.param(
            ("run", "x", "--endpoint", "http://127.0.0.1:9/v1"), "count", id="an endpoint that is dead"
        ),
        pytest.param(
            ("run", "--plan", "-", "--evaluation", "steps", "--tools", "tools.py"), "count", id="input"
        ),
    ],
)
def test_a_command_that_starts_warm_is_the_command(
    arguments: tuple[str, ...], tool: str, tmp_path: Path
) -> None:
    plan = one_step(tool, **({"text": "né\N{ROCKET}"} if tool == "count" else {"why": "it is so"}))
    done = []
    for start in (replan, replan_from_cold):
        place = tmp_path / start.__name__
        place.mkdir()
        text = (folder(place, plan) / "plan.json").read_text("utf-8")
        ran = start(*arguments, cwd=place, env={"COLUMNS": "90"}, stdin=text)
        done.append((ran.returncode, told(ran.stdout, place), told(ran.stderr, place)))
    assert done[0] == done[1]
