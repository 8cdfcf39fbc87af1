"""Recovery at the command: people who answer from another process, and a past told in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan

from replan.testing import ScriptedEndpoint

TOOLS = '''
from replan import tool

@tool(effect="reads")
def weather(city: str) -> dict:
    """The weather of a city."""
    if city != "Rome":
        raise ValueError(f"city: there is no city {city!r}")
    return {"degrees": 30}

@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"

@tool
def broken(to: str) -> str:
    """Send a fax."""
    raise RuntimeError("the fax machine is on fire")
'''


def plan(*steps: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    return {"steps": [{"step_id": one, "tool": tool, "parameters": given} for one, tool, given in steps]}


def verdict(score: float = 95) -> dict[str, Any]:
    names = ("completeness", "correctness", "efficiency", "reliability")
    return {
        "overall_score": score,
        "is_successful": score > 80,
        "dimensions": dict.fromkeys(names, score),
        "final_output": "done",
    }


def reflection(kind: str, data: Any, category: str = "parameter_error") -> dict[str, Any]:
    return {
        "root_cause_category": category,
        "root_cause": "the city is spelled in Italian",
        "is_recoverable": True,
        "confidence": 0.9,
        "suggested_action": {"type": kind, "data": data},
    }


GIVE_UP = {
    "problem_nature": "external",
    "should_replan": False,
    "reflection_text": "no plan puts out a fire",
    "root_causes": ["the fax machine burns"],
    "ask": "put out the fire",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def run(home: Path, answers: dict[str, Any], *more: str, task_id: str = "t-1") -> Any:
    with ScriptedEndpoint({"evaluation": verdict(), **answers}) as endpoint:
        return replan(
            "run", "--tools", "tools.py", "--endpoint", endpoint.url, "--model", "scripted", "--db", "r.db",
            "--task-id", task_id, *more, "do it", cwd=home,
        )  # fmt: skip


def test_the_past_is_told_in_plain_words(home: Path) -> None:
    healed = run(
        home,
        {
            "execution_plan": plan(("a", "weather", {"city": "Roma"})),
            "step_reflection": reflection("retry_with_params", {"city": "Rome"}),
        },
    )
    assert healed.returncode == 0, healed.stderr
    shown = replan("tasks", "show", "t-1", "--db", "r.db", cwd=home)
    assert "what failed, and what was done about it:" in shown.stdout
    assert "there is no city 'Roma'" in shown.stdout
    assert "wrong parameters, the city is spelled in Italian; so tried again with" in shown.stdout
    assert "failed once before" in shown.stdout
    as_json = json.loads(replan("tasks", "show", "t-1", "--json", "--db", "r.db", cwd=home).stdout)
    assert as_json["recovery"][-1] == "- judged 95 of 100"


def test_why_it_ended_so_and_what_a_person_can_do(home: Path) -> None:
    ended = run(
        home,
        {
            "execution_plan": plan(("a", "broken", {"to": "Ann"})),
            "step_reflection": reflection(
                "trigger_overall_reflection", {"summary": "it burns"}, "tool_error"
            ),
            "overall_reflection": GIVE_UP,
        },
    )
    assert ended.returncode == 1
    assert "put out the fire" in ended.stderr
    shown = replan("tasks", "show", "t-1", "--db", "r.db", cwd=home).stdout
    assert "why it ended so: failed: step 'a' (broken) failed" in shown
    assert "no plan puts out a fire; no further round" in shown
    assert "to do: put out the fire" in shown


def test_a_call_waits_for_a_yes_from_another_process(home: Path) -> None:
    answers = {"execution_plan": plan(("s", "send", {"to": "Ann"}))}
    waits = run(home, answers, "--approve", "destructive", "--interactive")
    assert waits.returncode == 5, waits.stderr
    assert "replan tasks approve t-1" in waits.stderr
    assert "waiting" in replan("tasks", "list", "--db", "r.db", cwd=home).stdout
    assert 'send({"to": "Ann"})' in replan("tasks", "show", "t-1", "--db", "r.db", cwd=home).stdout
    wrong = replan("tasks", "approve", "t-1", "nothing", "--db", "r.db", cwd=home)
    assert wrong.returncode == 2
    assert "no open approval 'nothing'; open: appr_" in wrong.stderr
    bad = replan("tasks", "approve", "t-1", "--parameters", "[1]", "--db", "r.db", cwd=home)
    assert bad.returncode == 2
    assert "has to be a JSON object" in bad.stderr
    shown = replan("tasks", "approve", "t-1", "--show", "--db", "r.db", cwd=home)
    assert 'send({"to": "Ann"}) in step s' in shown.stdout
    said = replan("tasks", "approve", "t-1", "--db", "r.db", cwd=home)
    assert said.returncode == 0
    assert 'approved: send({"to": "Ann"}) in step s' in said.stderr
    assert "replan tasks resume t-1" in said.stderr
    with ScriptedEndpoint({"evaluation": verdict(), **answers}) as endpoint:
        went_on = replan(
            "tasks",
            "resume",
            "t-1",
            "--endpoint",
            endpoint.url,
            "--model",
            "scripted",
            "--db",
            "r.db",
            "--json",
            cwd=home,
        )
    assert went_on.returncode == 0, went_on.stderr
    result = json.loads(went_on.stdout)
    assert result["steps"][0]["output"] == "sent to Ann"


def test_without_a_person_such_a_call_is_not_made(home: Path) -> None:
    answers = {"execution_plan": plan(("s", "send", {"to": "Ann"})), "overall_reflection": GIVE_UP}
    ended = run(home, answers, "--approve", "destructive")
    assert ended.returncode == 1
    assert "nobody is asked without --interactive" in ended.stderr
    events = replan("tasks", "show", "t-1", "--events", "--db", "r.db", cwd=home).stdout.splitlines()
    assert "call_started" not in {json.loads(line)["type"] for line in events}


def test_a_question_is_answered_and_the_answer_is_reflected_upon(home: Path) -> None:
    first = plan(("a", "broken", {"to": "Ann"}))
    again = {
        "problem_nature": "tools",
        "should_replan": True,
        "replanning_strategy": {"type": "full_replan", "reason": "send a letter"},
    }
    answers = {
        "execution_plan": [first],
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "it burns"}, "tool_error"),
        "overall_reflection": [GIVE_UP],
    }
    waits = run(home, answers, "--interactive")
    assert waits.returncode == 5, waits.stderr
    assert "replan tasks answer t-1" in waits.stderr
    said = replan("tasks", "answer", "t-1", "send a letter instead", "--db", "r.db", cwd=home)
    assert said.returncode == 0, said.stderr
    later = {
        "overall_reflection": again,
        "execution_plan": plan(("b", "send", {"to": "Ann"})),
        "evaluation": {**verdict(), "left_out_effects": [{"step": "a", "made_good_by": "b"}]},
    }
    with ScriptedEndpoint(later) as endpoint:
        went_on = replan(
            "tasks",
            "resume",
            "t-1",
            "--endpoint",
            endpoint.url,
            "--model",
            "scripted",
            "--db",
            "r.db",
            cwd=home,
        )
        assert went_on.returncode == 0, went_on.stderr
        assert "send a letter instead" in json.dumps(endpoint.requests[0])


def test_a_waiting_task_can_be_looked_at_from_everywhere(home: Path) -> None:
    answers = {"execution_plan": plan(("s", "send", {"to": "Ann"}))}
    assert run(home, answers, "--approve", "destructive", "--interactive").returncode == 5
    for command in (("watch", "t-1"), ("result", "t-1")):
        seen = replan("tasks", *command, "--db", "r.db", cwd=home)
        assert seen.returncode == 5, command
        assert "replan tasks approve t-1" in seen.stderr
        as_json = json.loads(replan("tasks", *command, "--json", "--db", "r.db", cwd=home).stdout)
        assert as_json["waiting_for"][0]["tool_id"] == "send"
    wrong = replan("tasks", "approve", "t-1", "--parameters", '{"to": 5}', "--db", "r.db", cwd=home)
    assert wrong.returncode == 2
    assert "to: 5 is not of type 'string'" in wrong.stderr
    assert "on the way:" in replan("tasks", "show", "t-1", "--db", "r.db", cwd=home).stdout
    assert replan("tasks", "approve", "t-1", "--db", "r.db", cwd=home).returncode == 0
    shown = replan("tasks", "show", "t-1", "--db", "r.db", cwd=home).stdout
    assert "nobody drives it: `replan tasks resume t-1 --db r.db`" in shown
