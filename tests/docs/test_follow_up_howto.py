"""The how-to about follow-up tasks: its program and its command, run as they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks_of, evaluation
from test_howtos import commands, shell

from replan.testing import ScriptedEndpoint

PAGE = "docs/how-to/follow-up.md"
TOOLS = """
from replan import tool

@tool(effect="once")
def mail(to: str, text: str) -> str:
    return f"mailed {text} to {to}"
"""


def step(step_id: str, tool: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool, "parameters": parameters}


def answer(body: dict[str, Any]) -> Any:
    """As somebody who goes by the prompt alone."""
    prompt = body["messages"][-1]["content"]
    task = re.findall(r"~~~ task\n(.*?)\n~~~", prompt, re.S)[0]
    if body["response_format"]["json_schema"]["name"] == "evaluation":
        before = re.search(r'parameters: (\{"to": "bob.*\})', prompt)
        return evaluation(f"To Bob: {json.loads(before[1])['text']}" if before and "?" in task else "Done.")
    if task.startswith("Mail Ann"):
        orders = step("orders", "open_orders", customer="Ann")
        return {
            "steps": [
                orders,
                step("send", "mail", to="ann@example.com", text="${orders.output | to_string(@)}"),
            ]
        }
    if task.startswith("Send it"):
        sent = re.search(r"^- (\w+): mail, succeeded, had its effect$", prompt, re.M)
        assert sent is not None
        return {
            "steps": [
                step("step_1", "mail", to="bob@example.com", text=f"${{previous.{sent[1]}.parameters.text}}")
            ]
        }
    return {"steps": []}


def test_the_program_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks_of(ROOT / PAGE, "python")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ScriptedEndpoint(answer) as endpoint:
        program = block.text.replace("http://localhost:8000/v1", endpoint.url)
        exec(compile(program, PAGE, "exec"), {"__name__": "of_the_page"})
    assert capsys.readouterr().out.splitlines() == [
        "Done.",
        "Done.",
        'To Bob: [{"id":"A-1","total":120},{"id":"A-2","total":45}]',
    ]


def test_the_command_of_the_page(tmp_path: Path) -> None:
    (line,) = commands(PAGE, "--after TASK")
    line = line.replace("--after TASK", "--after last")
    (more,) = blocks_of(ROOT / PAGE, "json")
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    (tmp_path / "more.json").write_text(more.text, "utf-8")
    first = {"steps": [step("send", "mail", to="ann@example.com", text="Hello")]}
    (tmp_path / "first.json").write_text(json.dumps(first), "utf-8")
    steps = {"APP_ORCHESTRATOR_EVALUATION": "steps"}
    done = shell("replan run --tools tools.py --plan first.json Mail", tmp_path, **steps)
    assert done.returncode == 0, done.stderr
    seen = shell(f"{line} --plan-only", tmp_path, **steps)
    assert json.loads(seen.stdout)["steps"][0]["step_id"] == "more", seen.stderr
    done = shell(line, tmp_path, **steps)
    assert (done.returncode, done.stdout) == (0, "mailed Hello to carl@example.com\n"), done.stderr
