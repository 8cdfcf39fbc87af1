"""Audit records to Kafka, over TCP: brokers that are away, mute, picky about size and about who signs in, and topics that are not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from kafka_broker import NOT_ALLOWED, TOO_LARGE, UNKNOWN_TOPIC, Broker, Front
from replan.config.sections import KafkaService
from replan.core import events as e
from replan.core.secrets import KnownSecrets
from replan.errors import ConfigError
from replan.ports import ConsumerState
from replan.projections.delivery import Delivery, Pace
from replan.projections.kafka import KafkaAudit, NotConfirmed, look
from replan.store.sqlite import SqliteStore
from tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio
QUICK = Pace(look_secs=0.01, beat_secs=0.05, take_secs=0.02, first_pause_secs=0.01, longest_pause_secs=0.05)
TOPIC = "audit"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


def section(at: str, **others: Any) -> KafkaService:
    given = {
        "enabled": True,
        "brokers": (at,),
        "topic": TOPIC,
        "timeout_secs": 2.0,
        "connect_timeout_secs": 2.0,
    }
    return KafkaService(**{**given, **others})


def started(count: int, task: str = "t", text: str = "") -> list[e.Record]:
    return [
        e.Record(n, task, 1.0, 1, e.HintGiven(request_id=f"r{n}", hint=text)) for n in range(1, count + 1)
    ]


def firsts(records: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """By task what came, each as it came first."""
    seqs: dict[str, dict[int, None]] = defaultdict(dict)
    for record in records:
        seqs[record["task_id"]][record["fields"]["seq"]] = None
    return {task: list(found) for task, found in seqs.items()}


def whole(count: int, task: str = "t") -> Any:
    return lambda records: len(firsts(records).get(task, [])) == count


async def test_a_broker_that_goes_away_again_and_again_loses_nothing_and_keeps_the_order(
    broker: Broker, tmp_path: Path
) -> None:
    tasks = [f"t{n}" for n in range(20)]
    async with stored(tmp_path) as store:
        delivery = Delivery(store.outbox(), KafkaAudit(section(broker.at)), pace=QUICK)
        delivering = asyncio.create_task(delivery.run())
        for turn in range(3):
            for task in tasks:
                await grow(store, task, 5, new=turn == 0)
            broker.down()
            for task in tasks:
                await grow(store, task, 5, new=False)
            if turn == 1:
                await until(store, lambda state: state.failures > 0)
            broker.up()
        await until(store, lambda state: state.events_behind == 0)
        delivering.cancel()
        await asyncio.wait({delivering})
    found = broker.read(TOPIC, lambda records: sum(map(len, firsts(records).values())) == 20 * 30)
    assert firsts(found) == {task: list(range(1, 31)) for task in tasks}


async def test_a_lost_confirmation_brings_records_twice_and_never_in_another_order(broker: Broker) -> None:
    proxy = TcpProxy(broker.port)
    broker.advertise(proxy.port)
    consumer = KafkaAudit(section(f"127.0.0.1:{proxy.port}"))
    await consumer.deliver(started(5))
    proxy.lose_answers()
    with contextlib.suppress(NotConfirmed):
        await consumer.deliver(started(400)[5:])
    await consumer.deliver(started(400)[5:])
    proxy.close()
    broker.advertise(broker.port)
    assert firsts(broker.read(TOPIC, whole(400))) == {"t": list(range(1, 401))}


async def test_a_broker_that_takes_and_never_confirms_is_given_up_in_time_and_tried_again(
    broker: Broker,
) -> None:
    proxy = TcpProxy(broker.port)
    broker.advertise(proxy.port)
    consumer = KafkaAudit(section(f"127.0.0.1:{proxy.port}", timeout_secs=2.0))
    await consumer.deliver(started(1))
    proxy.mute = True
    since = time.monotonic()
    with pytest.raises(NotConfirmed, match="9 audit records are not confirmed"):
        await consumer.deliver(started(10)[1:])
    assert time.monotonic() - since < 6
    proxy.mute = False
    proxy.cut_all()
    await consumer.deliver(started(10)[1:])
    proxy.close()


async def test_a_delivery_that_is_cancelled_ends_at_once(broker: Broker) -> None:
    broker.down()
    delivering = asyncio.create_task(KafkaAudit(section(broker.at, timeout_secs=60.0)).deliver(started(3)))
    await asyncio.sleep(0)
    delivering.cancel()
    async with asyncio.timeout(3):
        await asyncio.wait({delivering})


async def test_what_a_topic_does_not_take_for_its_size_is_told_in_few_words(broker: Broker) -> None:
    consumer = KafkaAudit(section(broker.at))
    broker.produce_fails(TOO_LARGE, 2)  # together, and then the first by itself
    await consumer.deliver(started(3, text="x" * 3_000))
    found = broker.read(TOPIC, whole(3))
    by_seq = {record["fields"]["seq"]: record["fields"] for record in found}
    assert by_seq[1]["cut"]["bytes"] > 1_000
    assert "hint" not in by_seq[1]
    assert by_seq[3]["hint"] == {"beginning": "x" * 1_000, "bytes": 3_002} or by_seq[3]["hint"] == "x" * 3_000
    broker.produce_fails(TOO_LARGE, 50)
    with pytest.raises(NotConfirmed, match=r"raise its max\.message\.bytes"):
        await consumer.deliver(started(1, "other"))


async def test_what_follows_a_set_that_is_refused_for_its_size_does_not_come_before_it(
    broker: Broker,
) -> None:
    consumer = KafkaAudit(section(broker.at, compression="none"))
    broker.produce_fails(TOO_LARGE, 1)
    await consumer.deliver(started(600, text="x" * 2_000))
    broker.produce_fails(TOO_LARGE, 1)  # one by one by now
    await consumer.deliver(started(700)[600:])
    assert firsts(broker.read(TOPIC, whole(700))) == {"t": list(range(1, 701))}


async def test_a_topic_that_comes_late_or_that_may_not_be_written_is_waited_for(broker: Broker) -> None:
    consumer = KafkaAudit(section(broker.at, timeout_secs=1.0))
    broker.topic_fails(TOPIC, UNKNOWN_TOPIC)
    with pytest.raises(NotConfirmed, match="topic 'audit'"):
        await consumer.deliver(started(2))
    assert look(section(broker.at)) == 0
    broker.topic_fails(TOPIC, NOT_ALLOWED)
    with pytest.raises(NotConfirmed):
        await consumer.deliver(started(2))
    broker.topic_fails(TOPIC, 0)
    await consumer.deliver(started(2))
    assert look(section(broker.at)) > 0


async def test_tls_and_a_sign_in_stand_between(broker: Broker, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    (tmp_path / "other").mkdir()
    other, _ = certificate(tmp_path / "other")
    with Front(broker.port, cert, key, "let-me-in") as front:
        broker.advertise(front.port)
        at = f"127.0.0.1:{front.port}"
        given = {
            "tls": True, "ca_file": cert, "sasl_mechanism": "plain", "sasl_username": "replan", "sasl_password": "let-me-in",
        }  # fmt: skip
        await KafkaAudit(section(at, **given)).deliver(started(2))
        assert look(section(at, **given)) > 0
        with pytest.raises(NotConfirmed) as wrong:
            await KafkaAudit(section(at, **{**given, "sasl_password": "hunter2-wrong"})).deliver(started(2))
        assert "hunter2" not in str(wrong.value)
        with pytest.raises(NotConfirmed, match=r"(?i)certificate"):
            await KafkaAudit(section(at, **{**given, "ca_file": other})).deliver(started(2))
    broker.advertise(broker.port)
    assert firsts(broker.read(TOPIC, whole(2))) == {"t": [1, 2]}


async def test_what_is_known_to_be_secret_does_not_leave(broker: Broker) -> None:
    known = KnownSecrets()
    known.add("hunter2hunter2", "password")
    await KafkaAudit(section(broker.at), masked=known.masked).deliver(
        started(1, text="it is hunter2hunter2, tell nobody")
    )
    assert "hunter2" not in json.dumps(broker.read(TOPIC, whole(1)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cert_file": "/nowhere"}, "no use without tls"),
        ({"tls": True, "ca_file": "/nowhere"}, "cannot be read"),
        ({"sasl_mechanism": "PLAIN"}, "needs sasl_username"),
        ({"sasl_password": "x"}, "need sasl_mechanism"),
    ],
)
def test_settings_that_go_together_are_given_together(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        KafkaAudit(section("127.0.0.1:1", **given))


def certificate(folder: Path) -> tuple[str, str]:
    """For 127.0.0.1, signed by itself, and its key."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
         "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@contextlib.asynccontextmanager
async def stored(folder: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(folder / "log.db")
    yield opened
    await opened.aclose()


async def grow(store: SqliteStore, task: str, count: int, *, new: bool) -> None:
    if new:
        await store.create(task, e.TaskSubmitted(description=task), 1.0)
        count -= 1
    claim = await store.claim(task)
    await store.append(claim, [e.StepStarted(step_id=f"s{n}") for n in range(count)], ts=2.0, round=1)
    await store.release(claim)


async def until(store: SqliteStore, holds: Callable[[ConsumerState], bool]) -> None:
    async with asyncio.timeout(30):
        while not any(map(holds, await store.outbox().consumers())):  # noqa: ASYNC110 - what another process would see
            await asyncio.sleep(0.01)
