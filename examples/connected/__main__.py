"""A whole task among what a company has: a registry, a tool service over gRPC, a model over HTTP, an audit in Kafka.

    python -m examples.connected
    python -m examples.connected --endpoint http://127.0.0.1:11434/v1 --model qwen3     with a model of yours

It needs `pip install '.[serve,remote,models,client]'`, and takes what else is there: Kafka with the extra `kafka` (else the audit is a
file), Consul where there is a program `consul`, or `--consul PROGRAM` (else a static list). Nothing is left behind but in `--folder FOLDER`.
Exit code 0 only if the task succeeds, the note is right and sent once, and all that was watched and audited equals the log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from examples.connected import around, model
from examples.connected.tools import LEVELS

from replan import Replan, TaskResult
from replan.client import Client
from replan.core.events import CallFailed, CallStarted, PlanGenerated, Record, StepCompleted, StepReflected

TASK = "Tell ann@example.com how high the Rhine stands in Colonia, in feet."
NOTE = {"to": "ann@example.com", "text": f"The Rhine at Cologne: {round(LEVELS['Cologne'] / 30.48, 2)} ft"}
"""What has to be sent, from the data and not from the tools."""
TOPIC = "task-audit-log"


class World(NamedTuple):
    """What is used, and where the service is."""

    folder: Path
    url: str
    consul: int | None
    brokers: str | None


class Seen(NamedTuple):
    """What came of it, from each who has seen it."""

    result: TaskResult
    watched: list[Record]
    stored: list[Record]
    audit: list[dict[str, Any]]
    notes: list[dict[str, str]]
    found: dict[str, str]
    """What the service says of what it depends on."""

    def is_right(self) -> bool:
        told = [one["fields"]["seq"] for one in self.audit]
        return (
            self.result.succeeded
            and self.notes == [NOTE]
            and self.watched == self.stored
            and told == sorted(set(told))
        )


@contextlib.contextmanager
def world(folder: Path, options: argparse.Namespace) -> Generator[World]:
    """All that the service needs, and the service, until the block ends."""
    with contextlib.ExitStack() as stands:
        own = {"XDG_STATE_HOME": str(folder), "RHINE_NOTES": str(folder / "notes.jsonl"), "APP_ENV": "none"}
        url = options.endpoint or stands.enter_context(model.endpoint()).url
        tools = stands.enter_context(
            around.command(
                "tools",
                "tools",
                "serve",
                str(around.TOOLS),
                "--port",
                "-1",
                "--grpc-port",
                "0",
                folder=folder,
                env=own,
            )
        )["grpc"]
        env = {**own, "APP_LLM_ENDPOINT": url, "APP_LLM_DEFAULT_MODEL": options.model}
        consul = brokers = None
        if options.consul:
            consul = stands.enter_context(around.consul_agent(options.consul, folder))
            around.register(consul, tools)
            env |= {"APP_CONSUL_ENABLED": "true", "APP_CONSUL_PORT": str(consul)}
        else:
            env |= {"APP_TOOL_SERVICE_SERVICE_NAME": f"static:127.0.0.1:{tools}"}
        if options.audit == "kafka":
            brokers = stands.enter_context(around.broker())
            env |= {"APP_KAFKA_SERVICE_ENABLED": "true", "APP_KAFKA_SERVICE_BROKERS": brokers}
        else:
            env |= {"APP_AUDIT_FILE": str(folder / "audit.jsonl")}
        asked = ("serve", "--port", "0", "--grpc-port", "0", "--db", f"sqlite:///{folder / 'tasks.db'}")
        service = stands.enter_context(around.command("service", *asked, folder=folder, env=env))
        yield World(folder, f"http://127.0.0.1:{service['http']}", consul, brokers)


async def run(folder: Path, options: argparse.Namespace) -> Seen:
    """Submit the task, watch it, and gather what each has seen of it."""
    with world(folder, options) as here:
        async with Client(here.url) as client:
            ready = await client.ready()
            found = {one.name: one.detail for one in ready.dependencies}
            print(f"Registry: {'Consul' if here.consul else 'a static list'}: {found['tool service']}")
            print(f"Task: {TASK}", flush=True)
            task_id = await client.submit(TASK, interactive=False)
            watched: list[Record] = []
            async for record in client.watch(task_id):
                watched.append(record)
                for line in tell(record.event):
                    print(line, flush=True)
            result = await client.wait(task_id)
        audit = (
            around.records_of(here.brokers, TOPIC, task_id)
            if here.brokers
            else around.records_in(folder / "audit.jsonl", task_id)
        )
    sent = folder / "notes.jsonl"
    notes = [json.loads(line) for line in sent.read_text("utf-8").splitlines()] if sent.exists() else []
    async with Replan(db=folder / "tasks.db") as replan:
        stored = list(await replan.history(task_id))
    return Seen(result, watched, stored, audit, notes, found)


def tell(event: object) -> list[str]:
    """Lines about the plan, a call, and what is done when one fails; none about all else."""
    match event:
        case PlanGenerated(workflow=workflow) if workflow is not None:
            return [f"  workflow  {event.workflow_id} {json.dumps(workflow.slots)}"]
        case CallStarted():
            return [f"  call      {event.tool_id} {json.dumps(event.parameters)}"]
        case CallFailed():
            return [f"  failed    {event.error.message}"]
        case StepReflected():
            cause = event.proposal.root_cause if event.proposal is not None else event.reason
            return [
                f"  diagnosis {cause}",
                f"  remedy    {event.action.type} {json.dumps(event.action.data)}",
            ]
        case StepCompleted():
            return [f"  step      {event.step_id} has succeeded"]
        case _:
            return []


def report(seen: Seen, options: argparse.Namespace) -> None:
    """What came of it."""
    print(f"Answer: {seen.result.output if seen.result.succeeded else seen.result.failure}")
    same = "the same as" if seen.watched == seen.stored else "NOT what is among"
    print(f"Watched over SSE: {len(seen.watched)} events, {same} the {len(seen.stored)} in the database")
    where = f"the topic {TOPIC} of Kafka" if options.audit == "kafka" else "a file"
    print(f"Audit: {len(seen.audit)} records in {where}")
    for one in seen.audit:
        print(f"  {one['module']:<13} {one['message']}")
    print("all of it is right" if seen.is_right() else "something of it is NOT right")


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        seen = asyncio.run(run(folder, options))
    report(seen, options)
    return 0 if seen.is_right() else 1


def parsed(arguments: list[str]) -> argparse.Namespace:
    usage = argparse.ArgumentParser("python -m examples.connected")
    usage.add_argument(
        "--endpoint", help="an OpenAI-compatible model; else a stand-in that knows this task alone"
    )
    usage.add_argument("--model", default="scripted", help="its name")
    usage.add_argument(
        "--consul", default=shutil.which("consul") or "", help="the agent's program; '': a static list"
    )
    kafka = importlib.util.find_spec("confluent_kafka") is not None
    usage.add_argument("--audit", choices=("kafka", "file"), default="kafka" if kafka else "file")
    usage.add_argument("--folder", help="where the database, the notes and what each process told are left")
    return usage.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
