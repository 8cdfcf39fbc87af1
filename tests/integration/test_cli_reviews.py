"""`--review-plan` and `replan tasks review`, as people type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli_process import replan

TOOLS = '''
from replan import tool


@tool(effect="once")
def send(to: str) -> str:
    """Write to somebody."""
    with open("journal", "a") as journal:
        journal.write(to + "\\n")
    return f"sent to {to}"
'''
DB = ("--db", "log.db")


def mail(whom: str) -> dict[str, Any]:
    return {"steps": [{"step_id": "s", "tool": "send", "parameters": {"to": whom}}]}


def test_a_plan_is_looked_at_changed_and_carried_out(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    for name, whom in (("plan", "Ann"), ("other", "Eve")):
        (tmp_path / f"{name}.json").write_text(json.dumps(mail(whom)))
    (tmp_path / "wrong.json").write_text(json.dumps({"steps": [{"step_id": "s", "tool": "sned"}]}))
    run = ("run", "write", "--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py", "--quiet")

    held = replan(*run, "--task-id", "t", "--review-plan", *DB, cwd=tmp_path)
    assert held.returncode == 5, held.stderr
    assert "May plan 1 be carried out?" in held.stderr
    assert "replan tasks review t --approve" in held.stderr
    listed = replan("tasks", "list", "--waiting-for", "person", *DB, cwd=tmp_path)
    assert "t " in listed.stdout
    shown = replan("tasks", "review", "t", *DB, cwd=tmp_path)
    assert json.loads(shown.stdout)["steps"][0]["parameters"] == {"to": "Ann"}
    assert "changes: s: send (once)" in shown.stderr
    assert "review" in replan("tasks", "show", "t", *DB, cwd=tmp_path).stdout

    wrong = replan("tasks", "review", "t", "--plan", "wrong.json", *DB, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "sned" in wrong.stderr
    both = replan("tasks", "review", "t", "--approve", "--reject", *DB, cwd=tmp_path)
    assert both.returncode == 2
    agreed = replan("tasks", "review", "t", "--plan", "other.json", "--by", "bob", *DB, cwd=tmp_path)
    assert agreed.returncode == 0, agreed.stderr
    assert "continue: replan tasks resume t" in agreed.stderr
    again = replan("tasks", "review", "t", "--approve", *DB, cwd=tmp_path)
    assert again.returncode == 2
    assert "before by bob" in again.stderr
    done = replan("tasks", "resume", "t", "--quiet", *DB, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "sent to Eve")
    assert (tmp_path / "journal").read_text() == "Eve\n"
    told = replan("tasks", "show", "t", *DB, cwd=tmp_path)
    assert "bob gave another plan" in told.stdout


def test_a_no_is_heard(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "plan.json").write_text(json.dumps(mail("Ann")))
    (tmp_path / "config.toml").write_text("[approval]\nreview_plan = true\n")
    run = ("run", "write", "--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py", "--quiet")
    assert replan(*run, "--task-id", "t", *DB, cwd=tmp_path).returncode == 5
    said = replan("tasks", "review", "t", "--reject", "--reason", "not today", *DB, cwd=tmp_path)
    assert said.returncode == 0
    done = replan("tasks", "resume", "t", "--quiet", *DB, cwd=tmp_path)
    assert done.returncode == 1
    assert "not today" in done.stderr
    assert not (tmp_path / "journal").exists()
