"""The fixtures for users' tests, used as a user does: in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from replan.testing import ScriptedEndpoint

PROJECT = '''
import pytest

from replan import Replan, tool

PAID = []
ANSWERS = {
    "execution_plan": {"steps": [
        {"step_id": "a", "tool": "weather", "parameters": {"city": "Rome"}},
        {"step_id": "b", "tool": "pay", "parameters": {"amount": 3}, "dependencies": ["a"]},
    ]},
    "evaluation": {
        "overall_score": 95, "is_successful": True, "final_output": "paid",
        "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90},
    },
}


@tool(effect="reads")
def weather(city: str) -> dict:
    """The weather of a city."""
    return {"degrees": 30}


@tool(effect="once")
def pay(amount: int) -> dict:
    """Pay an amount."""
    PAID.append(amount)
    return {"paid": amount}


TOOLS = [weather, pay]


def test_what_is_seen(run_task, scripted_model):
    seen = run_task("Pay if it is warm", model=scripted_model(ANSWERS), tools=TOOLS)
    seen.assert_succeeded()
    seen.assert_planned("weather", "pay")
    seen.assert_called("weather", {"city": "Rome"}, times=1)
    seen.assert_effects(("pay", {"amount": 3}))
    assert [call.outcome for call in seen.calls] == ["succeeded", "succeeded"]
    assert seen.calls[0].output == {"degrees": 30}
    for wrong, words in (
        (lambda: seen.assert_not_called("pay"), 'there were: pay({"amount":3}): succeeded'),
        (lambda: seen.assert_called("weather", {"city": "Oslo"}), "weather was not called with"),
        (lambda: seen.assert_called("weather", times=2), "2 times (it was 1)"),
        (lambda: seen.assert_planned("pay"), "the plan calls weather, pay, not pay"),
        (lambda: seen.assert_effects(), "more effects than expected: pay"),
        (lambda: seen.assert_effects(("pay", {"amount": 4})), "there was no effect pay"),
        (lambda: seen.assert_failed(), "the task succeeded"),
    ):
        with pytest.raises(AssertionError) as caught:
            wrong()
        assert words in str(caught.value)


def test_a_failure(run_task):
    def lost() -> str:
        """Fails."""
        raise ValueError("there is no such thing")

    plan = {"steps": [{"step_id": "a", "tool": "lost", "parameters": {}}]}
    seen = run_task("Lose it", tools=[lost], plan=plan, evaluation="steps", enable_step_level_reflection=False)
    seen.assert_failed("there is no such thing")
    assert [(call.tool, call.outcome) for call in seen.calls] == [("lost", "failed")]


@pytest.mark.anyio
async def test_of_its_own_store(make_replan, tmp_path):
    plan = {"steps": [{"step_id": "a", "tool": "weather", "parameters": {"city": "Rome"}}]}
    async with make_replan(tools=TOOLS, evaluation="steps") as replan:
        assert isinstance(replan, Replan)
        assert (await replan.run("How warm?", plan=plan)).output == {"degrees": 30}
    assert (tmp_path / "replan.db").exists()


def test_recorded(run_task, recorded, scripted_model):
    model = scripted_model(ANSWERS if "record" in recorded else {})
    seen = run_task("Pay if it is warm", model=model, tools=TOOLS, **recorded)
    seen.assert_succeeded()
    assert bool(model.calls) is ("record" in recorded)
'''


NO_MODEL_NAMED = """
from replan import tool


@tool(effect="reads")
def weather(city: str) -> dict:
    \"\"\"The weather of a city.\"\"\"
    return {"degrees": 30}


def test_recorded(run_task, recorded):
    seen = run_task("How warm is it?", tools=[weather], **recorded)
    seen.assert_succeeded()
    seen.assert_called("weather", {"city": "Rome"})
"""
ANSWERS = {
    "execution_plan": {"steps": [{"step_id": "a", "tool": "weather", "parameters": {"city": "Rome"}}]},
    "evaluation": {
        "overall_score": 95, "is_successful": True, "final_output": "30",
        "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90},
    },
}  # fmt: skip


def run_pytest(folder: Path, *args: str, project: str = PROJECT, **more: str) -> tuple[int, str]:
    (folder / "test_project.py").write_text(project, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_replan", "-p", "no:cacheprovider", "-p", "no:asyncio", *args]  # fmt: skip
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **more}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_fixtures_and_recordings_as_a_project_of_its_own(tmp_path: Path) -> None:
    code, told = run_pytest(tmp_path, "-k", "recorded")
    assert code == 1
    assert "make one with --replan-record" in told
    code, told = run_pytest(tmp_path, "--replan-record")
    assert (code, "4 passed" in told or "5 passed" in told) == (0, True), told
    assert (tmp_path / "recordings" / "test_project.test_recorded.jsonl").exists()
    code, told = run_pytest(tmp_path, "-k", "recorded")
    assert code == 0, told


def test_the_configured_model_is_the_one_that_is_recorded(tmp_path: Path) -> None:
    options = ("--rootdir", str(tmp_path))
    with ScriptedEndpoint(ANSWERS) as endpoint:
        (tmp_path / "config.toml").write_text(
            '[llm]\ndefault_model = "scripted"\n'
        )  # and where it is, by the environment
        named = {"APP_LLM_ENDPOINT": endpoint.url}
        code, told = run_pytest(tmp_path, "--replan-record", *options, project=NO_MODEL_NAMED, **named)
        assert (code, endpoint.calls["execution_plan"]) == (0, 1), told
    code, told = run_pytest(tmp_path, *options, project=NO_MODEL_NAMED)
    assert code == 0, told


def test_loading_it_imports_nothing_of_replan() -> None:
    program = "import sys, pytest_replan; print([n for n in sys.modules if n.split('.')[0] in ('replan', 'pydantic')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
