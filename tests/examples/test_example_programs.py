"""The other examples: each is run, and what it says is compared with what is so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.record import RECORDINGS

from examples import own_endpoint, typed_answer
from replan.testing import ScriptedEndpoint

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )


# ── a typed answer ────────────────────────────────────────────────────────────


async def test_a_typed_answer_is_an_object_with_the_distance_that_the_tools_give(tmp_path: Path) -> None:
    trip = await typed_answer.trip(
        "Rome", "Oslo", replay=RECORDINGS / "typed_answer.jsonl", db=tmp_path / "replan.db"
    )
    rome, oslo = await typed_answer.locate("Rome"), await typed_answer.locate("Oslo")
    km = await typed_answer.distance_km(rome.latitude, rome.longitude, oslo.latitude, oslo.longitude)
    assert trip == typed_answer.Trip(start="Rome", end="Oslo", km=km)
    assert 2000 < km < 2020


def test_the_typed_example_refuses_a_city_that_it_does_not_know() -> None:
    done = run("examples/typed_answer.py", "Rome", "Atlantis")
    assert done.returncode == 1
    assert "give two of Lisbon, Oslo, Rome, Vienna" in done.stderr


# ── a given plan ──────────────────────────────────────────────────────────────


def test_a_given_plan_runs_without_a_model(tmp_path: Path) -> None:
    plan, tools = EXAMPLES / "given_plan" / "plan.json", EXAMPLES / "given_plan" / "tools.py"
    db = f"sqlite:///{tmp_path / 'replan.db'}"
    done = run("-m", "replan.cli", "run", "--plan", str(plan), "--tools", str(tools), "--evaluation", "steps",
               "--json", "--db", db)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    texts = [path.read_text(encoding="utf-8") for path in (EXAMPLES / "given_plan" / "notes").glob("*.txt")]
    words = sum(len(text.split()) for text in texts)
    todos = [line[6:] for text in texts for line in text.splitlines() if line.startswith("TODO: ")]
    assert sorted(result["final_output"]["todo_list"]) == sorted(todos)
    assert result["final_output"]["sentence"].startswith(
        f"{words} words; the longest note is garden.txt; 3 open"
    )
    statuses = {step["step_id"]: step["status"] for step in result["steps"]}
    assert statuses.pop("praise") == "skipped"
    assert set(statuses.values()) == {"succeeded"}
    assert result["usage"]["llm_calls"] == 0


# ── an endpoint of one's own ──────────────────────────────────────────────────


def lines_plan(first: str, second: str) -> dict[str, object]:
    return {
        "steps": [
            {"step_id": "a", "name": "count", "tool": "count_lines", "parameters": {"file": first}},
            {"step_id": "b", "name": "count", "tool": "count_lines", "parameters": {"file": second}},
            {"step_id": "c", "name": "about", "tool": "first_sentence", "parameters": {"file": first}},
        ]
    }


def test_any_openai_compatible_endpoint_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(body: dict[str, object]) -> dict[str, object]:
        # What the tools found has to have reached the endpoint, or there is nothing to judge.
        asked = json.dumps(body)
        lines = own_endpoint.count_lines("resume.py")
        found = '"file\\": \\"resume.py' in asked and str(lines) in asked
        scores = dict.fromkeys(
            ("completeness", "correctness", "efficiency", "reliability"), 100 if found else 0
        )
        return {
            "overall_score": 100 if found else 0,
            "is_successful": found,
            "dimensions": scores,
            "final_output": f"resume.py has {lines} lines.",
        }

    script = {"execution_plan": lines_plan("resume.py", "typed_answer.py"), "evaluation": judge}
    with ScriptedEndpoint(script, api_key="sesame") as endpoint:
        monkeypatch.setenv("API_KEY", "sesame")
        done = run("examples/own_endpoint.py", endpoint.url, "scripted")
    assert done.returncode == 0, done.stderr
    lines = len((EXAMPLES / "resume.py").read_text(encoding="utf-8").splitlines())
    assert done.stdout.strip() == f"resume.py has {lines} lines."
    assert endpoint.calls == {"execution_plan": 1, "evaluation": 1}


def test_a_file_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there are: .*own_endpoint\.py"):
        own_endpoint.count_lines("../pyproject.toml")


# ── going on after a kill ─────────────────────────────────────────────────────


@pytest.mark.skipif(os.name == "nt", reason="a killed process is another thing on Windows")
def test_a_killed_task_goes_on_and_repeats_nothing() -> None:
    done = run("examples/resume.py")
    assert done.returncode == 0, done.stderr
    _, *journal = done.stdout.splitlines()
    assert journal == [
        "the killed process: pack",
        "the killed process: print_label",
        "the killed process: call_courier",
        "the second process: call_courier",
        "the second process: send_invoice",
    ]


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: str(path.relative_to(EXAMPLES))
)
def test_every_example_says_what_it_is_and_how_it_is_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    docstring = text.split('"""')[1]
    assert (
        "replan run" in docstring
        or f"python examples/{path.name}" in docstring
        or "python -m" in docstring
        or (path.name == "check.py")
    )
