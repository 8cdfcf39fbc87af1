"""Audit records to Kafka: what is lost where the broker is killed, and what it costs the tasks.

    python -m bench.audit [--tasks 500] [--pairs 5]

Every task gives 200 records. They are stored while they are delivered, and the way to the broker (a process that holds its port) is killed and started again
three times; what was confirmed stays, as with a broker that has a disk. The broker is the mock cluster of librdkafka, over TCP. Then the same tasks are run with
and without delivery, each in a process of its own, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the tests are not a package

from bench.overhead import nothing, plan_of
from bench.rows import chain
from kafka_broker import Broker, Way
from replan import Replan
from replan.config import Settings
from replan.config.sections import KafkaService
from replan.core import events as e
from replan.projections.delivery import Delivery, Pace
from replan.projections.kafka import KafkaAudit
from replan.store.sqlite import SqliteStore

TOPIC, EACH, KILLS, AWAY_SECS = "audit", 200, 3, 4.0


class Reader:
    """Reads the topic all the while: the broker keeps little."""

    def __init__(self, broker: Broker) -> None:
        self.came: dict[str, list[int]] = defaultdict(list)
        self.count = 0
        self._broker, self._done = broker, threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _read(self) -> None:
        from kafka_broker import reader_of

        reader = reader_of(self._broker.at, TOPIC)
        while not self._done.is_set():
            for message in reader.consume(1_000, 0.1):
                if message.error() is None:
                    self.came[message.key().decode()].append(json.loads(message.value())["fields"]["seq"])
                    self.count += 1
        reader.close()


async def _store(store: SqliteStore, tasks: int) -> None:
    for number in range(tasks):
        name = f"t{number}"
        await store.create(name, e.TaskSubmitted(description=name), time.time())
        claim = await store.claim(name)
        for part in range(0, EACH - 1, 20):
            count = min(20, EACH - 1 - part)
            await store.append(
                claim, [e.StepStarted(step_id=f"s{part + n}") for n in range(count)], ts=time.time(), round=1
            )
        await store.release(claim)


async def lost(tasks: int) -> None:
    """Print what came, how often, and in which order."""
    wanted = tasks * EACH
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        way = Way(broker.port)
        way.start()
        broker.advertise(way.port)
        store = SqliteStore(Path(folder) / "log.db")
        section = KafkaService(
            enabled=True, brokers=(f"127.0.0.1:{way.port}",), topic=TOPIC, timeout_secs=2.0
        )
        since = time.monotonic()
        storing = asyncio.create_task(_store(store, tasks))
        delivery = Delivery(store.outbox(), KafkaAudit(section), pace=Pace(longest_pause_secs=30.0))
        delivering = asyncio.create_task(delivery.run())
        # The mock cluster gives nothing of a topic that was empty when it was first read.
        async with asyncio.timeout(60):
            while not any(state.delivered for state in await store.outbox().consumers()):  # noqa: ASYNC110 - likewise to be asked for
                await asyncio.sleep(0.05)
        reader = Reader(broker)
        kills = 0
        while (
            reader.count < wanted
            or not storing.done()
            or any(state.events_behind for state in await store.outbox().consumers())
        ):
            if kills < KILLS and reader.count > (kills + 1) * wanted / (KILLS + 1):
                kills += 1
                way.kill()
                print(f"killed at {reader.count:,} records")
                await asyncio.sleep(AWAY_SECS)
                way.start()
            await asyncio.sleep(0.05)
        took = time.monotonic() - since
        await asyncio.sleep(1)
        delivering.cancel()
        await asyncio.wait({delivering})
        await storing
        reader.close()
        way.kill()
        await store.aclose()
    whole = list(range(1, EACH + 1))
    firsts = {task: list(dict.fromkeys(seqs)) for task, seqs in reader.came.items()}
    missing = wanted - sum(len(set(seqs)) for seqs in firsts.values())
    disordered = sum(seqs != sorted(seqs) for seqs in firsts.values())
    assert set(firsts) == {f"t{number}" for number in range(tasks)} or missing
    print(
        f"{wanted:,} records, {kills} kills: {missing} lost, {reader.count - wanted + missing} came twice, {disordered} of {tasks} tasks out of "
        f"order, {sum(seqs == whole for seqs in firsts.values())} whole; {took:.0f} s"
    )
    if missing or disordered or kills < KILLS:
        raise SystemExit(1)


async def one(at: str) -> None:
    """A run of chains of steps; `at`: the broker, or "" without delivery. Milliseconds a step, each of the runs."""
    kafka = {"enabled": bool(at), "brokers": [at or "none"], "topic": TOPIC}
    settings = Settings.model_validate({"kafka_service": kafka})
    plan, spent, cpu = plan_of(chain()), [], time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Replan(tools=[nothing], db=folder + "/r.db", settings=settings, evaluation="steps") as replan,
            replan.auditing(),
        ):
            for _ in range(25):
                since = time.perf_counter()
                assert (await replan.run("nothing", plan=plan)).is_success
                spent.append((time.perf_counter() - since) * 10)
    print(
        json.dumps(
            {
                "wall": statistics.median(spent[5:]),
                "best": min(spent[5:]),
                "cpu": (time.process_time() - cpu) * 1000 / 2_500,
            }
        )
    )


def cost(pairs: int) -> None:
    """Print medians, and the medians of the ratios of each pair."""
    with Broker() as broker:
        found: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for _ in range(pairs):
            without, beside = (
                json.loads(
                    subprocess.run(
                        [sys.executable, "-m", "bench.audit", "--one", at],
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout
                )
                for at in ("", broker.at)
            )
            found.append((without, beside))
    for name, what in (
        ("wall", "time a step, median"),
        ("best", "time a step, best"),
        ("cpu", "CPU of the whole process a step"),
    ):
        a, b = (statistics.median(pair[at][name] for pair in found) for at in (0, 1))
        ratio = statistics.median(pair[1][name] / pair[0][name] for pair in found)
        print(f"{what}: without {a:.3f} ms, with {b:.3f} ms; ratio of the pairs {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        asyncio.run(one(given.one))
        return
    asyncio.run(lost(given.tasks))
    cost(given.pairs)


if __name__ == "__main__":
    main()
