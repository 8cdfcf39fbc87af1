"""The metrics of the service, by what real tasks record; rules and board by Prometheus' own checker."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from promtool import promtool
from replan import Replan, tool
from replan.core.plain_calls import PlainEnd
from replan.core.state.task import State
from replan.run.access.ports import Load
from replan.server.telemetry.discovery import Registries
from replan.server.telemetry.metrics import MOST_NAMES, Metrics
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "replan.json").read_text(encoding="utf-8"))
RULES = DEPLOY / "prometheus" / "alerts.yaml"


def checker() -> str:
    found = promtool()
    if found is None:
        pytest.skip("promtool cannot be had here")
    return found


def run(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([checker(), *arguments], input=given, capture_output=True, timeout=60, check=False)


@tool(effect="reads")
def look(at: str) -> str:
    return f"seen {at}"


@tool(effect="reads")
def gone(at: str) -> str:
    raise ConnectionRefusedError("nobody is there")


def step(name: str, what: str = "look") -> dict[str, Any]:
    return {"step_id": name, "tool": what, "parameters": {"at": name}}


YES = {
    "is_successful": True, "overall_score": 95, "reasoning": "done", "final_output": "done",
    "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 95, "reliability": 95},
}  # fmt: skip


async def measured(tmp_path: Path) -> Metrics:
    """Of a task that succeeds, and of one whose tool is not there."""
    model = ScriptedModel({"execution_plan": {"steps": [step("a"), step("b")]}, "evaluation": YES})
    async with Replan(model, [look, gone], db=tmp_path / "tasks.db", max_transient_retries=1) as replan:
        metrics = Metrics(lambda: Load(1, 2, 10, 1000))
        replan.service.parts.taps = (metrics,)
        assert (await replan.run("Look at both")).is_success
        failed = await replan.run("Look", plan={"steps": [step("c", "gone")]}, evaluation="steps")
        assert not failed.is_success
    return metrics


def value(text: str, name: str, **labels: str) -> float:
    """The sample of that name and these labels."""
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found and found[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', found[2] or "")) == labels:
            return float(found[3])
    raise AssertionError(f"no {name} {labels} in:\n{text}")


async def test_what_tasks_did_is_counted(tmp_path: Path) -> None:
    text = (await measured(tmp_path)).text().decode()
    assert value(text, "replan_tasks_ended_total", status="succeeded") == 1
    assert value(text, "replan_tasks_ended_total", status="failed") == 1
    assert value(text, "replan_tasks_started_total") == 2
    assert value(text, "replan_tool_calls_total", tool="look", outcome="succeeded") == 2
    assert value(text, "replan_tool_calls_total", tool="gone", outcome="failed") >= 1
    assert value(text, "replan_tool_connection_failures_total", tool="gone") >= 1
    assert value(text, "replan_llm_calls_total", role="planning", model="scripted", outcome="succeeded") == 1
    assert value(text, "replan_task_duration_seconds_count", status="succeeded") == 1
    assert value(text, "replan_step_overhead_seconds_count") == 2
    assert value(text, "replan_tasks_running") == 1
    assert value(text, "replan_tasks_queued") == 2
    assert value(text, "replan_task_oldest_seconds") == 0
    assert (
        value(
            text, "replan_events_total", type="task_submitted" if "task_submitted" in text else "task_started"
        )
        >= 1
    )


async def test_names_follow_the_rules_of_prometheus(tmp_path: Path) -> None:
    text = (await measured(tmp_path)).text()
    done = run("check", "metrics", given=text)
    assert (done.returncode, done.stderr) == (0, b"")


def test_tools_that_come_and_go_make_no_endless_list() -> None:
    metrics = Metrics(lambda: Load(0, 0, 10, 1000))
    for n in range(3 * MOST_NAMES):
        metrics.landed(State(), [PlainEnd("a", "k", f"tool{n}", None, 0.1)], 0.0)
    names = set(
        re.findall(r'replan_tool_calls_total\{outcome="succeeded",tool="(\w+)"\}', metrics.text().decode())
    )
    assert len(names) == MOST_NAMES + 1
    assert "other" in names


def test_the_rules_are_rules_and_go_off_when_they_should() -> None:
    checked = run("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = run("test", "rules", str(RULES.with_name("alerts_test.yaml")))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def expressions() -> list[str]:
    rules = [one["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for one in group["rules"]]
    board = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    return [*rules, *board]


async def test_rules_and_board_name_only_metrics_that_there_are(tmp_path: Path) -> None:
    metrics = await measured(tmp_path)
    metrics.registry.register(Registries(list, None))
    there = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    there |= {family.name for family in metrics.registry.collect()}
    there |= {f"{family.name}_total" for family in metrics.registry.collect() if family.type == "counter"}
    there |= {
        f"{family.name}_{end}"
        for family in metrics.registry.collect()
        if family.type == "histogram"
        for end in ("bucket", "sum", "count")
    }
    named = {name for one in expressions() for name in re.findall(r"\breplan_\w+", one)}
    assert named - there == set()


def test_every_expression_of_the_board_can_be_read(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{n}", "expr": one.replace("$__rate_interval", "5m")}
        for n, one in enumerate(expressions())
    ]
    given = tmp_path / "board.yaml"
    given.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    done = run("check", "rules", str(given))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_panel_has_a_place_and_an_id_of_its_own() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["targets"] and panel["title"] for panel in panels)
