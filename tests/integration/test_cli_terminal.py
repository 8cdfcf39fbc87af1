"""What a person at a real terminal is asked, what may be typed, and what Ctrl-C does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan
from terminal import at_a_terminal

TOOLS = '''
import asyncio
from replan import tool

@tool
def pay(amount: float, to: str) -> str:
    """Pay somebody."""
    return f"paid {amount:g} to {to}"

@tool
async def hold(on: bool) -> str:
    """Take no notice of being cancelled."""
    while on:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("not yet")
'''

BY_STEPS = ("--tools", "tools.py", "--plan", "plan.json", "--evaluation", "steps", "--db", "r.db")
ASKED = "yes, no, show (all of it), or other parameters as a JSON object: "


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    return tmp_path


def given(home: Path, *steps: dict[str, Any]) -> tuple[str, ...]:
    (home / "plan.json").write_text(json.dumps({"steps": list(steps)}), "utf-8")
    return ("run", "Pay", "--task-id", "t-1", *BY_STEPS)


def pay(step_id: str, amount: float, *after: str) -> dict[str, Any]:
    parameters = {"amount": amount, "to": "Bo"}
    return {"step_id": step_id, "tool": "pay", "parameters": parameters, "dependencies": list(after)}


def test_a_call_is_edited_and_another_refused_and_what_cannot_be_read_is_asked_for_again(home: Path) -> None:
    run = given(home, pay("a", 3), pay("b", 4, "a"))
    with at_a_terminal(*run, "--interactive", "--approve", "all", cwd=home) as terminal:
        terminal.wait_for("May 'pay' be called in step 'a'?")
        for typed, told in (
            ("ja", "'ja' is neither yes nor no, nor a JSON object"),
            ("[1]", "'[1]' is no JSON object"),
            ("{1}", "Expecting property name"),
            ('{"amount": "x"}', "amount: 'x' is not of type 'number'"),
        ):
            terminal.wait_for(ASKED)
            terminal.type(typed)
            terminal.wait_for(told)
        terminal.wait_for(ASKED)
        terminal.type('{"amount": 5}')
        terminal.wait_for('so it would be pay({"amount": 5, "to": "Bo"}) in step a')
        terminal.wait_for(ASKED)
        terminal.type('{"to": "Åsa"}')
        terminal.wait_for('so it would be pay({"amount": 5, "to": "Åsa"}) in step a')
        terminal.wait_for(ASKED)
        terminal.type("show")
        terminal.wait_for(ASKED)
        terminal.type("yes")
        terminal.wait_for("May 'pay' be called in step 'b'?")
        terminal.wait_for(ASKED)
        terminal.type("no")
        terminal.wait_for("why not (may be empty): ")
        terminal.type("too much")
        assert terminal.ended() == 1
    assert "a person has rejected the call of 'pay': too much" in terminal.shown
    result = json.loads(replan("tasks", "result", "t-1", "--json", "--db", "r.db", cwd=home).stdout)
    assert result["steps"][0]["output"] == "paid 5 to Åsa"


@pytest.mark.parametrize("how", ["empty line", "ctrl-c"])
def test_who_does_not_want_to_answer_now_can_do_so_later(home: Path, how: str) -> None:
    run = given(home, pay("a", 3))
    with at_a_terminal(*run, "--interactive", "--approve", "all", cwd=home) as terminal:
        terminal.wait_for(ASKED)
        if how == "ctrl-c":
            terminal.press_ctrl_c()
        else:
            terminal.type("")
        assert terminal.ended() == 5
    assert "replan tasks approve t-1" in terminal.shown
    assert replan("tasks", "approve", "t-1", "--db", "r.db", cwd=home).returncode == 0


def test_ctrl_c_cancels_and_a_second_one_stops_at_once(home: Path) -> None:
    run = given(home, {"step_id": "a", "tool": "hold", "parameters": {"on": True}})
    with at_a_terminal(*run, cwd=home) as terminal:
        terminal.wait_for("1 running")
        terminal.press_ctrl_c()
        terminal.wait_for("press Ctrl-C again to stop at once")
        terminal.press_ctrl_c()
        assert terminal.ended() == 130


def test_a_steps_question_is_asked_until_its_answer_fits(home: Path) -> None:
    steps = [
        {"step_id": "a", "tool": "ask_user", "parameters": {"question": "Which \u001b[31mcolour?", "choices": ["red", "blue"]}},
        {"step_id": "b", "tool": "ask_user", "dependencies": ["a"], "parameters": {"question": "How many?", "kind": "number"}},
    ]  # fmt: skip
    with at_a_terminal(*given(home, *steps), "--interactive", cwd=home) as terminal:
        terminal.wait_for("colour?")
        terminal.wait_for("answer (one of red, blue; empty: later): ")
        terminal.type("green")
        terminal.wait_for("right is one of red, blue")
        terminal.wait_for("empty: later): ")
        terminal.type("Blue")
        terminal.wait_for("answer (a number, as 12.5; empty: later): ")
        terminal.type("")
        assert terminal.ended() == 5
    assert "replan tasks answer t-1 --question" in terminal.shown
    wrong = replan("tasks", "answer", "t-1", "many", "--question", "b", "--db", "r.db", cwd=home)
    assert (wrong.returncode, "right is a number, as 12.5" in wrong.stderr) == (2, True)
    assert replan("tasks", "answer", "t-1", "3", "--question", "b", "--db", "r.db", cwd=home).returncode == 0
    done = replan("tasks", "resume", "t-1", "--json", "--db", "r.db", cwd=home)
    assert json.loads(done.stdout)["final_output"] == 3
