"""`replan workflows` and `replan scenes` as people and programs use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_process import replan

FLOW = """
id: sum
description: Add two numbers.
slots: {a: {type: integer}, b: {type: integer, default: 2}, name: {type: string, default: it}}
steps: [{step_id: s, tool: add, parameters: {a: "${slots.a}", b: "${slots.b}", name: "${slots.name}"}}]
"""
TOOLS = """
def add(a: int, b: int, name: str) -> dict:
    "Add two numbers."
    return {name: a + b}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "sum.yaml").write_text(FLOW)
    (tmp_path / "sums.md").write_text("---\ntask_type: sums\ndescription: Sums.\nplanning: Add up.\n---\n")
    (tmp_path / "config.toml").write_text("[scenes]\npaths = ['sums.md']\nworkflows = ['flows']\n")
    return tmp_path


def test_a_workflow_is_run_by_its_slots_without_a_model(folder: Path) -> None:
    slots = ("--slot", "a=40", "--slot", "name=5=five")
    done = replan("workflows", "run", "sum", *slots, "--tools", "tools.py", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["final_output"] == {"5=five": 42}
    assert result["usage"]["llm_calls"] == 0
    planned = replan("workflows", "run", "sum", *slots, "--tools", "tools.py", "--plan-only", cwd=folder)
    assert json.loads(planned.stdout)["steps"][0]["parameters"] == {"a": 40, "b": 2, "name": "5=five"}
    for more, words in (
        ((), "slot 'a' has to be filled (a: integer)"),
        (("--slot", "a=four"), "slot 'a'"),
        (("--slot", "a"), "expected NAME=VALUE, like city=Rome"),
    ):
        refused = replan("workflows", "run", "sum", *more, "--tools", "tools.py", cwd=folder)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    bare = replan("workflows", "run", "sum", *slots, cwd=folder)
    assert (bare.returncode, "come from --tools" in bare.stderr) == (2, True), bare.stderr
    unknown = replan("workflows", "run", "smu", cwd=folder)
    assert (unknown.returncode, "did you mean 'sum'" in unknown.stderr) == (2, True), unknown.stderr


def test_they_are_listed_shown_and_checked(folder: Path) -> None:
    listed = replan("workflows", "list", cwd=folder)
    assert "sum(a, b?, name?): Add two numbers." in listed.stdout
    assert "working-days" in listed.stdout
    rows = json.loads(replan("workflows", "list", "--json", cwd=folder).stdout)
    assert [one["required"] for one in rows if one["id"] == "sum"] == [["a"]]
    shown = replan("workflows", "show", "sum", cwd=folder)
    assert json.loads(shown.stdout)["id"] == "sum"
    assert f"workflow sum: {folder / 'flows' / 'sum.yaml'}" in shown.stderr
    assert "sums" in replan("scenes", "list", cwd=folder).stdout
    assert "planning:\nAdd up." in replan("scenes", "show", "sums", cwd=folder).stdout
    assert replan("scenes", "show", "sum", cwd=folder).returncode == 2
    assert "default: every task" in replan("scenes", "show", "default", cwd=folder).stdout
    assert replan("workflows", "check", cwd=folder).returncode == 0
    assert replan("scenes", "check", "sums.md", cwd=folder).stdout == f"ok  sums  {folder / 'sums.md'}\n"
    (folder / "flows" / "more.yaml").write_text("id: more\nstpes: []\n")
    wrong = replan("workflows", "check", "flows", cwd=folder)
    assert wrong.returncode == 1
    assert "more.yaml:2: 'stpes' is no key of a workflow; did you mean 'steps'?" in wrong.stdout
    assert "stpes" not in wrong.stderr  # it is told once
    doctor = replan("doctor", "--without", "model", "--json", cwd=folder)
    (found,) = [one for one in json.loads(doctor.stdout)["checks"] if one["name"] == "scenes"]
    assert (found["state"], "more.yaml" in found["found"]) == ("problem", True)


@pytest.mark.parametrize("name", ["find-text", "table-summary"])
def test_what_is_shown_of_a_workflow_is_a_file_of_one(tmp_path: Path, name: str) -> None:
    beginning = replan("workflows", "show", name, cwd=tmp_path)
    (tmp_path / "mine.json").write_text(beginning.stdout)
    checked = replan("workflows", "check", "mine.json", cwd=tmp_path)
    assert (checked.returncode, checked.stdout) == (0, f"ok  {name}  {tmp_path / 'mine.json'}\n"), (
        checked.stdout
    )
