"""Audit records beside a service: delivered while it serves, told by `/ready`, the metrics and `replan doctor`, and in files."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_process import BY_STEPS, folder, going_on, replan
from service_here import service_on

from kafka_broker import UNKNOWN_TOPIC, Broker
from replan import Replan
from replan.cli.doctor.audit import topic
from replan.config import Settings
from replan.core.events import Record
from replan.errors import InputError
from replan.projections.audit_file import AuditFile
from replan.projections.json_lines import JsonLines

pytestmark = pytest.mark.anyio
SECS = 30.0
PLAN = {"steps": [{"step_id": "a", "tool": "double", "parameters": {"n": 4}}]}


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


def made(path: Path, **sections: Any) -> Replan:
    settings = Settings.model_validate({"server": {"port": 0}, **sections})
    return Replan(tools=[double], db=path / "tasks.db", settings=settings, evaluation="steps")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def ready(url: str) -> dict[str, tuple[bool, str]]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{url}/ready")
    assert answer.status_code == 200
    return {one["name"]: (one["ready"], one["detail"]) for one in answer.json()["dependencies"]}


async def test_a_service_writes_what_its_tasks_do_and_whose_act_that_was(tmp_path: Path) -> None:
    file = tmp_path / "audit" / "audit.jsonl"
    async with service_on(made(tmp_path, audit={"file": str(file)})) as here:
        async with httpx2.AsyncClient(trust_env=False, base_url=f"{here.url}/api/v1") as client:
            asked = {"task_description": "double it", "task_id": "t", "options": {"plan": PLAN}}
            assert (await client.post("/tasks", json=asked)).status_code == 202
            assert (await client.get("/tasks/t/result?wait=20")).json()["final_output"] == 8
        async with asyncio.timeout(SECS):
            while "the task has succeeded" not in [one["message"] for one in lines(file)]:  # noqa: ASYNC110 - what is in the file is looked at
                await asyncio.sleep(0.01)
            while (await ready(here.url))["audit.file"] != (True, "has got everything"):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.05)
        async with httpx2.AsyncClient(trust_env=False) as client:
            metrics = (await client.get(f"{here.url}/metrics")).text
        assert 'replan_outbox_delivering{consumer="audit.file"} 1.0' in metrics
        assert 'replan_outbox_behind_events{consumer="audit.file"} 0.0' in metrics
    told = lines(file)
    assert {one["task_id"] for one in told} == {"t"}
    assert [one["fields"]["seq"] for one in told] == sorted(one["fields"]["seq"] for one in told)
    kinds = [one["fields"]["event"] for one in told]
    assert [kind for kind in kinds if kind in WANTED] == WANTED


WANTED = [
    "task_submitted",
    "plan_generated",
    "step_started",
    "step_completed",
    "evaluation_completed",
    "task_completed",
]


async def test_a_dead_broker_stops_no_task_and_no_service_and_says_why(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    kafka = {"enabled": True, "brokers": ["127.0.0.1:1"], "timeout_secs": 2.0, "connect_timeout_secs": 1.0}
    async with service_on(made(tmp_path, kafka_service=kafka)) as here:
        async with httpx2.AsyncClient(trust_env=False, base_url=f"{here.url}/api/v1") as client:
            asked = {"task_description": "double it", "task_id": "t", "options": {"plan": PLAN}}
            assert (await client.post("/tasks", json=asked)).status_code == 202
            assert (await client.get("/tasks/t/result?wait=20")).json()["is_success"]
        async with asyncio.timeout(SECS):
            while "refused" not in (now := await ready(here.url))["audit.kafka"][1]:  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.05)
        assert now["audit.kafka"][0]
        assert "events behind" in now["audit.kafka"][1]


def test_doctor_says_whether_the_topic_is_there() -> None:
    pytest.importorskip("confluent_kafka")

    def found(at: str) -> tuple[str, str]:
        section = {"enabled": True, "brokers": [at], "topic": "audit", "connect_timeout_secs": 2.0}
        (finding,) = topic(Settings.model_validate({"kafka_service": section}))
        return finding.state, finding.found

    with Broker() as broker:
        broker.topic_fails("audit", UNKNOWN_TOPIC)
        assert found(broker.at) == ("problem", f"there is no topic 'audit' of {broker.at}")
        broker.topic_fails("audit", 0)
        assert found(broker.at) == ("ok", f"the topic 'audit' of {broker.at} has 4 partitions")
    state, told = found(broker.at)
    assert (state, "refused" in told) == ("problem", True)


async def test_nobody_else_takes_the_place_of_what_is_configured(tmp_path: Path) -> None:
    class Mine:
        name = "audit.kafka"

        async def deliver(self, records: list[Record]) -> None: ...

    async with made(tmp_path) as replan:
        for consumer in (
            Mine(),
            JsonLines(tmp_path / "x", name="audit.file"),
            AuditFile(tmp_path / "x", name="audit.kafka"),
        ):
            with pytest.raises(
                InputError, match="is the name of what the configuration delivers audit records to"
            ):
                await replan.deliver(consumer)


async def test_records_of_a_task_that_is_forked_and_of_one_that_is_deleted(tmp_path: Path) -> None:
    async with made(tmp_path, audit={"file": str(tmp_path / "a.jsonl")}) as replan:
        await replan.run("double it", plan=PLAN, task_id="t")
        fork = await replan.fork("t", at=2, by="ann", reason="once more")
        await replan.run("double it", plan=PLAN, task_id="gone")
        await replan.delete("gone")
        async with replan.auditing(), asyncio.timeout(SECS):
            while not any(state.events_behind == 0 for state in await replan.consumers()):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.01)
    told = lines(tmp_path / "a.jsonl")
    assert {one["task_id"] for one in told} >= {"t", fork}
    assert "gone" not in {one["task_id"] for one in told}
    (forked,) = [one for one in told if one["fields"]["event"] == "task_forked"]
    assert (forked["fields"]["by"], forked["fields"]["origin"], forked["fields"]["reason"]) == (
        "ann",
        "t",
        "once more",
    )


def test_the_command_writes_records(tmp_path: Path) -> None:
    place = folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "t", cwd=place).returncode == 0
    with going_on("outbox", "audit", "a.jsonl", cwd=place) as process:
        until = time.monotonic() + SECS
        while not lines(place / "a.jsonl") or not lines(place / "a.jsonl")[-1]["message"].startswith(
            "the task has"
        ):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=SECS)
    listed = json.loads(replan("outbox", "list", "--json", cwd=place).stdout)["consumers"]
    assert [(one["name"], one["events_behind"]) for one in listed] == [("audit.file", 0)]
