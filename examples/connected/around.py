"""What stands around the service: a registry, a tool service, a broker. `python -m examples.connected` starts it, and ends it.

Consul is the real agent where there is one; the broker is librdkafka's own, which other processes reach over TCP.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Producer

HERE = Path(__file__).parent
TOOLS = HERE / "tools.py"
SERVICE = "rhine-tools"
ENDS_SECS = 30.0


@contextlib.contextmanager
def command(name: str, *arguments: str, folder: Path, env: Mapping[str, str]) -> Generator[dict[str, int]]:
    """`replan …`, which listens, in a process of its own until the block ends: its ports, by protocol. What it tells is in NAME.log."""
    said = folder / f"{name}.log"
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "replan.cli", *arguments],
            cwd=HERE,  # where config.toml is
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        ports = {name: int(port) for name, port in re.findall(r"(http|grpc)://127\.0\.0\.1:(\d+)", line)}
        if not ports:
            raise RuntimeError(
                f"`replan {' '.join(arguments)}` does not start: {line}{said.read_text('utf-8')}"
            )
        yield ports
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=ENDS_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


# ── a registry ──


@contextlib.contextmanager
def consul_agent(program: str, folder: Path) -> Generator[int]:
    """The real agent, alone in a cluster of its own that is gone with it; the port of its HTTP interface."""
    http, server, serf_lan, serf_wan = _free_ports(4)
    ports = {
        "http": http, "server": server, "serf_lan": serf_lan, "serf_wan": serf_wan, "dns": -1, "grpc": -1, "https": -1,
    }  # fmt: skip
    config = {
        "ports": ports,
        "bind_addr": "127.0.0.1",
        "client_addr": "127.0.0.1",
        "disable_update_check": True,
    }
    said = folder / "consul.log"
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [program, "agent", "-dev", "-hcl", json.dumps(config)], cwd=folder, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + ENDS_SECS
        while not _leads(http):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the Consul agent does not start: {said.read_text('utf-8')[-2000:]}")
            time.sleep(0.05)
        yield http
    finally:
        process.kill()
        process.wait()


def _leads(port: int) -> bool:
    try:
        return bool(asked_consul(port, "/v1/status/leader"))
    except OSError:
        return False


def register(consul: int, port: int) -> None:
    """Tell the agent where the tools are, as a deployment would."""
    service = {
        "ID": f"{SERVICE}-1",
        "Name": SERVICE,
        "Address": "127.0.0.1",
        "Port": port,
        "Checks": [{"GRPC": f"127.0.0.1:{port}", "Interval": "1s", "Status": "passing"}],
    }
    asked_consul(consul, "/v1/agent/service/register", service)


def asked_consul(port: int, path: str, body: Any = None) -> Any:
    """What the agent answers; a body is put there."""
    data = None if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "PUT"
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text.strip() else None


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


# ── a broker ──


@contextlib.contextmanager
def broker() -> Generator[str]:
    """A cluster of one broker in this process, with real connections; its address. It is there as long as its producer is."""
    from confluent_kafka import Producer

    owner: Producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (found,) = owner.list_topics(timeout=10).brokers.values()
    yield f"{found.host}:{found.port}"
    owner.flush(1)


def records_of(brokers: str, topic: str, task_id: str, secs: float = 60.0) -> list[dict[str, Any]]:
    """The audit records of a task up to its end, as they stand in the topic."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": brokers, "group.id": "examples.connected", "log_level": 0})
    found: list[dict[str, Any]] = []
    until = time.monotonic() + secs
    try:
        while not any(_ends(one) for one in found):
            if time.monotonic() > until:
                raise RuntimeError(f"only {len(found)} audit records have come")
            if not reader.assignment():  # the topic comes with its first record
                parts = reader.list_topics(topic, timeout=10).topics[topic].partitions
                reader.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
            message = reader.poll(0.2)
            if message is not None and message.error() is None and message.key() == task_id.encode():
                found.append(json.loads(message.value() or b""))
    finally:
        reader.close()
    return found


def records_in(file: Path, task_id: str, secs: float = 60.0) -> list[dict[str, Any]]:
    """The same from a file."""
    until = time.monotonic() + secs
    while True:
        lines = file.read_text("utf-8").splitlines(keepends=True) if file.exists() else []
        found = [
            one
            for one in (json.loads(line) for line in lines if line.endswith("\n"))
            if one["task_id"] == task_id
        ]
        if any(_ends(one) for one in found):
            return found
        if time.monotonic() > until:
            raise RuntimeError(f"only {len(found)} audit records have come")
        time.sleep(0.05)


def _ends(record: dict[str, Any]) -> bool:
    return str(record["message"]).startswith("the task has")
