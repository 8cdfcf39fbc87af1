"""The example of a service among others: each who has seen its task, the watcher, the database, the audit, has seen the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples.connected import __main__ as connected
from examples.connected import model

from consul_agent import consul
from replan.core.audit.records import audit_record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "connected.md"


def shown() -> list[str]:
    """What the page has the command say."""
    text = PAGE.read_text("utf-8").partition("$ python -m examples.connected\n")[2]
    return text.partition("```")[0].splitlines()


def check(seen: connected.Seen) -> None:
    """Nothing here is taken from what the example says of itself."""
    events = [record.event for record in seen.stored]
    (planned,) = [event for event in events if event.type == "plan_generated"]
    assert planned.workflow_id == "rhine-report"
    assert planned.workflow is not None
    assert planned.workflow.slots == {"station": "Colonia", "to": "ann@example.com"}, "by the model"
    calls = [(event.tool_id, event.parameters) for event in events if event.type == "call_started"]
    assert [(tool, given) for tool, given in calls if tool == "water_level"] == [
        ("water_level", {"station": "Colonia"}),
        ("water_level", {"station": "Cologne"}),
    ]
    (failed,) = [event for event in events if event.type == "call_failed"]
    (healed,) = [event for event in events if event.type == "step_reflected"]
    assert (failed.step_id, healed.by) == ("look", "model")
    assert (healed.action.type, healed.action.data) == ("retry_with_params", {"station": "Cologne"})
    assert [event.step_id for event in events if event.type == "step_completed"] == [
        "look",
        "convert",
        "write",
    ]
    assert seen.notes == [{"to": "ann@example.com", "text": "The Rhine at Cologne: 11.68 ft"}], "once"
    assert seen.result.succeeded
    assert seen.result.output == "The Rhine at Cologne: 11.68 ft"
    assert seen.watched == seen.stored
    assert seen.audit == [told for one in seen.stored if (told := audit_record(one)) is not None]
    assert seen.is_right()


@pytest.mark.anyio
async def test_with_consul_and_kafka_it_says_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("confluent_kafka")
    if (program := consul()) is None:
        pytest.skip("no Consul agent is here, and the package cannot be fetched")
    options = connected.parsed(["--consul", program, "--audit", "kafka"])
    seen = await connected.run(tmp_path, options)
    connected.report(seen, options)
    check(seen)
    assert seen.found["tool service"] == "1 instance of rhine-tools"
    assert seen.found["registration"] == "registered"
    assert capsys.readouterr().out.splitlines() == shown()


def test_without_them_the_command_takes_a_list_and_a_file_and_any_model(tmp_path: Path) -> None:
    command = ["-m", "examples.connected", "--consul", "", "--audit", "file", "--folder", str(tmp_path)]
    with model.endpoint() as own:
        done = subprocess.run(
            [sys.executable, *command, "--endpoint", own.url, "--model", "scripted"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    said, page = done.stdout.splitlines(), shown()
    assert said[0].startswith("Registry: a static list: 1 instance of 127.0.0.1:")
    assert said[1:] == [line.replace("the topic task-audit-log of Kafka", "a file") for line in page[1:]]
    assert (tmp_path / "tasks.db").exists()
    assert own.calls == dict.fromkeys(
        ("execution_plan", "workflow_slots", "step_reflection", "evaluation"), 1
    )


def test_it_calls_itself_right_only_where_each_has_seen_the_same() -> None:
    records: Any = [1, 2]
    audit = [{"fields": {"seq": 1}}, {"fields": {"seq": 2}}]
    good = connected.Seen(ended(True), records, records, audit, [connected.NOTE], {})
    assert good.is_right()
    assert not good._replace(result=ended(False)).is_right()
    assert not good._replace(notes=[connected.NOTE] * 2).is_right()
    assert not good._replace(watched=records[:1]).is_right()
    assert not good._replace(audit=audit[::-1]).is_right()


def ended(well: bool) -> Any:
    return SimpleNamespace(succeeded=well)
