"""Audit records, delivered to a topic of Kafka: keyed by task, confirmed by all replicas that are in step, in order per task also after failures.

A batch is confirmed as a whole or comes again as a whole. The producer leaves no gaps: once a record could not be delivered, none that follow it are, so
that what comes again never stands behind what came after it. Then that producer is done for, and the next batch is given to a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from replan.config.sections import KafkaService
from replan.core.audit.records import audit_record, essence
from replan.core.events import Record
from replan.core.types import JsonObject
from replan.core.words import beginning, in_digits, one_line
from replan.errors import ConfigError, ReplanError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

NAME = "audit.kafka"
"""What the cursor is kept under."""
_LOOK_SECS = 0.1
"""How often a delivery looks whether it is to stop."""
_LEAST_SECS = 2.0
"""A new producer needs some time before its first record: with less it would never come to that."""
_LATE_SECS = 5.0
"""Beyond its time limit, until a producer that says nothing is taken for stuck."""
_SET_BYTES = 256 * 1024
"""Of records that are sent together: well below what brokers take as they come (1 MB)."""
_FRAME_BYTES = 100
_LINGER_MS = 1_000
"""Sets are sent when a wait for them begins."""
_MOST_REFUSED = 1_000
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
log = logging.getLogger("replan.kafka")


class _Aside:
    """Takes what the library has to log, each try of each connection: what it comes to is said once, by whoever delivers."""

    def log(self, level: int, text: str, *values: object) -> None:
        log.debug(text, *values)


class NotConfirmed(ReplanError):
    """The brokers have not confirmed a batch: it comes again."""


class _Refused(Exception):
    """A set of records is larger than the topic takes."""

    def __init__(self, made: Sequence[_Made]) -> None:
        super().__init__()
        self.made = made


class _Made(NamedTuple):
    """A record on its way: where it stands in the log, and as it is sent."""

    place: tuple[str, int]
    data: bytes

    @property
    def size(self) -> int:
        """In a set, about."""
        return len(self.data) + len(self.place[0]) + _FRAME_BYTES


class KafkaAudit:
    """A consumer (`ports.Consumer`). `masked`: the value without what is known to be secret here."""

    def __init__(
        self,
        section: KafkaService,
        *,
        name: str = NAME,
        masked: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self.name = name
        self._section = section
        self._masked = masked
        self._given = settings_of(section)
        need_library()
        self._producer: Producer | None = None
        self._trouble = ""
        """What the library has said last of brokers that cannot be reached."""
        self._small: dict[tuple[str, int], None] = {}
        """Records that the topic does not take as they are."""
        self._most_bytes = _SET_BYTES
        """Of records that are sent together: fewer, once so many were refused."""
        self._using = threading.Lock()

    async def deliver(self, records: Sequence[Record]) -> None:
        stop = threading.Event()
        sending = asyncio.create_task(asyncio.to_thread(self._deliver, records, stop))
        sending.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # of one that nobody waits for
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            stop.set()
            raise

    def _deliver(self, records: Sequence[Record], stop: threading.Event) -> None:
        with self._using:  # one that was told to stop may not be out yet
            confirmed: set[tuple[str, int]] = set()
            while True:
                try:
                    for some in self._waves(self._made(records), confirmed):
                        self._send(some, confirmed, stop)
                    self._trouble = ""
                    return
                except _Refused as refused:
                    self._drop()
                    self._take_smaller(refused.made)
                except BaseException:
                    self._drop()
                    raise

    def _waves(self, made: Sequence[_Made], confirmed: set[tuple[str, int]]) -> Iterator[list[_Made]]:
        """What is sent together: of each part of the topic one set at the most, and the next once it is confirmed.

        A broker that has nothing of a producer yet would take the set that follows one which it has refused.
        """
        some: list[_Made] = []
        size = 0
        for each in made:
            if each.place in confirmed:
                continue
            if some and size + each.size > self._most_bytes:
                yield some
                some, size = [], 0
            some.append(each)
            size += each.size
        if some:
            yield some

    def _take_smaller(self, refused: Sequence[_Made]) -> None:
        """The topic takes no set of so many bytes: fewer are sent together, or a record that stood alone is told in few words."""
        if len(refused) > 1:
            self._most_bytes = min(self._most_bytes, sum(each.size for each in refused)) // 2
            return
        if refused[0].place in self._small:
            raise NotConfirmed(
                f"{self._where()} takes no audit record, however small: raise its max.message.bytes"
            )
        self._remember(refused[0].place)

    def _made(self, records: Sequence[Record]) -> list[_Made]:
        made: list[_Made] = []
        for record in records:
            said = audit_record(record)
            if said is None:
                continue
            if self._masked is not None:
                said = self._masked(said)
            place = (record.task_id, record.seq)
            if place in self._small:
                said = essence(said)
            made.append(_Made(place, to_json(said, inf_nan_mode="null", serialize_unknown=True)))
        return made

    def _send(self, made: Sequence[_Made], confirmed: set[tuple[str, int]], stop: threading.Event) -> None:
        """Until all are confirmed. What is confirmed of a part of the topic is its beginning, as there are no gaps."""
        from confluent_kafka import KafkaException

        failed: list[KafkaError] = []
        too_large: list[_Made] = []
        left = {each.place for each in made}

        def refused(each: _Made, error: KafkaError) -> None:
            if error.name() in _TOO_LARGE:
                too_large.append(each)
            else:
                failed.append(error)

        def told(each: _Made) -> Callable[[KafkaError | None, Message], None]:
            def tell(error: KafkaError | None, message: Message) -> None:
                if error is None:
                    confirmed.add(each.place)
                    left.discard(each.place)
                else:
                    refused(each, error)

            return tell

        producer = self._open()
        until = time.monotonic() + _limit(self._section) + _LATE_SECS
        for each in made:
            try:
                producer.produce(
                    self._section.topic, each.data, key=each.place[0].encode(), on_delivery=told(each)
                )
            except KafkaException as error:
                refused(each, error.args[0])
                break
        while left and not failed and not too_large:
            self._wait(producer, until, stop)
        if left:  # which one was the first is said, or comes from that
            until = min(until, time.monotonic() + _LATE_SECS)
            with contextlib.suppress(NotConfirmed):
                while len(producer):
                    self._wait(producer, until, stop)
        if too_large:
            raise _Refused(too_large)
        if left:
            raise self._not_confirmed(len(left), failed)

    def _wait(self, producer: Producer, until: float, stop: threading.Event) -> None:
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):  # that it is done for, which each record says too
            producer.flush(_LOOK_SECS)  # at once, where a poll would let them linger
        if stop.is_set():
            raise NotConfirmed("the delivery was stopped")
        if time.monotonic() >= until:
            raise self._not_confirmed(len(producer), [])

    def _not_confirmed(self, count: int, failed: Sequence[KafkaError]) -> NotConfirmed:
        why = self._trouble or next((error.str() for error in failed), "they say nothing")
        return NotConfirmed(f"{in_digits(count)} audit records are not confirmed by {self._where()}: {why}")

    def _where(self) -> str:
        return f"the topic {self._section.topic!r} of {', '.join(self._section.brokers)}"

    def _open(self) -> Producer:
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer({**self._given, "error_cb": self._heard}, logger=_Aside())
        return self._producer

    def _heard(self, error: KafkaError) -> None:
        # That all brokers are away follows from what was said of each, and says less.
        if error.name() not in ("_ALL_BROKERS_DOWN", "_GAPLESS_GUARANTEE", "_FATAL"):
            self._trouble = beginning(one_line(error.str()))

    def _drop(self) -> None:
        from confluent_kafka import KafkaException

        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with contextlib.suppress(KafkaException):  # that it is done for
                producer.poll(0)

    def _remember(self, place: tuple[str, int]) -> None:
        self._small[place] = None
        log.warning(
            "the audit record of event %d of task %s is told in few words: it is larger than the topic takes",
            place[1],
            place[0],
        )
        while len(self._small) > _MOST_REFUSED:
            del self._small[next(iter(self._small))]


def settings_of(section: KafkaService) -> dict[str, Any]:
    """What the library is given. `ConfigError` for what cannot be."""
    for name in ("ca_file", "cert_file", "key_file"):
        path = getattr(section, name)
        if path is not None and not section.tls:
            raise ConfigError(f"[kafka_service] {name} has no use without tls = true")
        if path is not None and not os.access(Path(path).expanduser(), os.R_OK):
            raise ConfigError(f"[kafka_service] {name}: {path} cannot be read")
    if (section.cert_file is None) != (section.key_file is None):
        raise ConfigError("[kafka_service] cert_file and key_file go together: give both, or neither")
    signs_in = section.sasl_mechanism is not None
    if signs_in and not (section.sasl_username and section.sasl_password):
        raise ConfigError(
            f"[kafka_service] sasl_mechanism = {section.sasl_mechanism!r} needs sasl_username and sasl_password (APP_KAFKA_SERVICE_SASL_PASSWORD)"
        )
    if not signs_in and (section.sasl_username or section.sasl_password):
        raise ConfigError(
            '[kafka_service] sasl_username and sasl_password need sasl_mechanism, such as "SCRAM-SHA-256"'
        )
    millis = int(_limit(section) * 1000)
    given: dict[str, Any] = {
        "bootstrap.servers": ",".join(section.brokers),
        "client.id": "replan",
        "security.protocol": ("SASL_" if signs_in else "") + ("SSL" if section.tls else "PLAINTEXT"),
        "compression.type": section.compression,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "message.timeout.ms": millis,
        "request.timeout.ms": millis,
        "socket.timeout.ms": millis,
        "socket.connection.setup.timeout.ms": max(1_000, int(section.connect_timeout_secs * 1000)),
        "reconnect.backoff.max.ms": 2_000,
        "retries": max(1, section.max_retries),
        "batch.size": 2 * _SET_BYTES,
        "linger.ms": _LINGER_MS,
        "log.connection.close": False,
    }
    if signs_in:
        given |= {
            "sasl.mechanism": section.sasl_mechanism,
            "sasl.username": section.sasl_username,
            "sasl.password": section.sasl_password,
        }
    for name, key in (
        ("ca_file", "ssl.ca.location"), ("cert_file", "ssl.certificate.location"), ("key_file", "ssl.key.location")
    ):  # fmt: skip
        if (path := getattr(section, name)) is not None:
            given[key] = str(Path(path).expanduser())
    if section.key_password:
        given["ssl.key.password"] = section.key_password
    return given


def _limit(section: KafkaService) -> float:
    return max(section.timeout_secs, _LEAST_SECS)


def need_library() -> None:
    """`ConfigError` where the library of Kafka is not here."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"[kafka_service] enabled needs more packages ({error.name} is not here): pip install 'replan[kafka]'"
        ) from error


def look(section: KafkaService) -> int:
    """How many parts the topic has, asked of its brokers now; 0 where there is no such topic. `NotConfirmed` if none answers."""
    given = settings_of(section)
    need_library()
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    heard: list[str] = []
    of_producers = ("acks", "compression", "enable", "message", "retries", "batch", "linger", "request")
    asked: dict[str, Any] = {
        key: value for key, value in given.items() if key.partition(".")[0] not in of_producers
    }
    asked["error_cb"] = lambda error: heard.append(error.str())
    client = AdminClient(asked, logger=_Aside())
    try:
        known = client.list_topics(section.topic, timeout=section.connect_timeout_secs)
    except KafkaException as error:
        client.poll(0)
        why = one_line(heard[0]) if heard else error.args[0].str()
        raise NotConfirmed(f"{', '.join(section.brokers)}: {why}") from None
    found = known.topics.get(section.topic)
    return 0 if found is None or found.error is not None else len(found.partitions)
