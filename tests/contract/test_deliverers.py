"""What every consumer that ships with Replan promises to whoever delivers: a batch is taken as a whole or raises, and comes again in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_broker import Broker
from replan.config.sections import KafkaService
from replan.core import events as e
from replan.ports import Consumer
from replan.projections.audit_file import AuditFile
from replan.projections.json_lines import JsonLines

pytestmark = pytest.mark.anyio


class Place(NamedTuple):
    """A consumer, and what becomes of what it is delivered."""

    consumer: Consumer
    breaks: Callable[[], None]
    mends: Callable[[], None]
    came: Callable[[int], list[tuple[str, int]]]
    """The task and number of each that came, once there are so many."""


@pytest.fixture(params=["lines", "audit.file", "audit.kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param != "audit.kafka":
        path = tmp_path / "to" / "lines.jsonl"
        made: Consumer = JsonLines(path) if request.param == "lines" else AuditFile(path)

        def written(count: int) -> list[tuple[str, int]]:
            found = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
            return [(one["task_id"], one["seq"] if "seq" in one else one["fields"]["seq"]) for one in found]

        yield Place(made, lambda: path.mkdir(parents=True), path.rmdir, written)
        return
    pytest.importorskip("confluent_kafka")
    from replan.projections.kafka import KafkaAudit

    with Broker() as broker:
        section = KafkaService(enabled=True, brokers=(broker.at,), topic="audit", timeout_secs=2.0)

        def read(count: int) -> list[tuple[str, int]]:
            def enough(records: list[dict[str, Any]]) -> bool:
                return len({(one["task_id"], one["fields"]["seq"]) for one in records}) >= count

            return [(one["task_id"], one["fields"]["seq"]) for one in broker.read("audit", enough)]

        yield Place(KafkaAudit(section), broker.down, broker.up, read)


def batch(first: int, last: int, *tasks: str) -> list[e.Record]:
    return [
        e.Record(seq, task, 1.0, 1, e.StepStarted(step_id=f"s{seq}"))
        for task in tasks
        for seq in range(first, last + 1)
    ]


def firsts(came: list[tuple[str, int]], task: str) -> list[int]:
    return list(dict.fromkeys(seq for one, seq in came if one == task))


async def test_batches_come_whole_and_in_order_in_each_task(place: Place) -> None:
    await place.consumer.deliver(batch(1, 20, "a", "b"))
    await place.consumer.deliver(batch(21, 40, "a", "b"))
    came = place.came(80)
    assert firsts(came, "a") == firsts(came, "b") == list(range(1, 41))


async def test_one_that_cannot_take_a_batch_says_so_and_takes_it_later(place: Place) -> None:
    place.breaks()
    with pytest.raises(Exception):  # noqa: B017, PT011 - of whatever kind
        await place.consumer.deliver(batch(1, 5, "a"))
    place.mends()
    await place.consumer.deliver(batch(1, 5, "a"))
    await place.consumer.deliver(batch(6, 7, "a"))
    assert firsts(place.came(7), "a") == list(range(1, 8))


async def test_a_batch_that_comes_again_stands_behind_itself(place: Place) -> None:
    await place.consumer.deliver(batch(1, 5, "a"))
    await place.consumer.deliver(batch(1, 8, "a"))
    assert firsts(place.came(8), "a") == list(range(1, 9))


async def test_nothing_and_what_says_nothing_are_taken(place: Place) -> None:
    await place.consumer.deliver([])
    await place.consumer.deliver([e.Record(1, "a", 1.0, 1, e.StepReady(step_id="s"))])


async def test_one_that_is_cancelled_can_be_asked_again(place: Place) -> None:
    delivering = asyncio.create_task(place.consumer.deliver(batch(1, 50, "a")))
    await asyncio.sleep(0)
    delivering.cancel()
    await asyncio.wait({delivering})
    await place.consumer.deliver(batch(1, 50, "a"))
    assert firsts(place.came(50), "a") == list(range(1, 51))
