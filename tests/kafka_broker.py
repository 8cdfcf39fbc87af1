"""A broker that speaks Kafka over TCP: the mock cluster of librdkafka, in a process of its own, and what stands before it.

What it has confirmed it keeps while it is down, as a broker with a disk does. Run as a program it obeys lines on stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import glob
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

UNKNOWN_TOPIC, TOO_LARGE, NOT_ALLOWED = 3, 10, 29


class Broker:
    """Started and ended as a context manager; `at` is its address."""

    def __init__(self) -> None:
        self.at = ""

    def __enter__(self) -> Broker:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.at = self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def port(self) -> int:
        return int(self.at.rpartition(":")[2])

    def down(self) -> None:
        """Cut every connection, and take none."""
        self._say("down")

    def up(self) -> None:
        self._say("up")

    def advertise(self, port: int) -> None:
        """Be known to clients by another port: of what stands before it."""
        self._say(f"port {port}")

    def topic_fails(self, topic: str, code: int) -> None:
        """Answer every question about it with an error; 0: no longer."""
        self._say(f"topic {topic} {code}")

    def produce_fails(self, code: int, times: int) -> None:
        """Refuse so many requests to take records."""
        self._say(f"produce {code} {times}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        assert self._answer() == "ok"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def read(
        self, topic: str, enough: Callable[[list[dict[str, Any]]], bool], secs: float = 30.0
    ) -> list[dict[str, Any]]:
        """What stands in the topic, in order in each part of it, once that is enough; the keys are held against the records."""
        import time

        reader = reader_of(self.at, topic)
        found: list[dict[str, Any]] = []
        until = time.monotonic() + secs
        while not enough(found):
            assert time.monotonic() < until, f"only {len(found)} came"
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                record = json.loads(message.value())
                assert message.key().decode() == record["task_id"]
                found.append(record)
        reader.close()
        return found


def reader_of(at: str, topic: str) -> Any:
    """A consumer of all of the topic from its beginning."""
    from confluent_kafka import Consumer

    reader = Consumer(
        {"bootstrap.servers": at, "group.id": "test", "auto.offset.reset": "earliest", "log_level": 0}
    )
    reader.assign(_parts(reader, topic))
    return reader


def _parts(reader: Any, topic: str) -> list[Any]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    known = reader.list_topics(topic, timeout=10).topics[topic].partitions
    return [TopicPartition(topic, part, OFFSET_BEGINNING) for part in known]


class Front:
    """Stands before a broker, in a process of its own: with TLS, and with a sign-in (SASL PLAIN)."""

    def __init__(self, to: int, cert: str, key: str, password: str) -> None:
        self._given = [str(to), cert, key, password]
        self.port = 0

    def __enter__(self) -> Front:
        command = [sys.executable, __file__, *self._given]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class Way:
    """A plain way to a broker, by a port of its own, in a process that can be killed and started again."""

    def __init__(self, to: int) -> None:
        self._to = to
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
        command = [sys.executable, __file__, str(self._to), str(self.port)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


async def passed_on(to: int, port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server, on = await asyncio.open_connection("127.0.0.1", to)
        with contextlib.suppress(OSError):
            await asyncio.gather(_pass(reader, on), _pass(server, writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", port)
    print("up", flush=True)
    await listening.serve_forever()


class Door:
    """What runs there."""

    def __init__(self, to: int, password: str) -> None:
        self._to, self._password = to, password

    async def stand(self, cert: str, key: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server, on = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            if await self._signed_in(reader, writer, server, on):
                await asyncio.gather(_pass(reader, on), _pass(server, writer))
        except (OSError, EOFError):
            pass
        finally:
            for each in (writer, on):
                each.transport.abort()

    async def _signed_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        on: asyncio.StreamWriter,
    ) -> bool:
        while True:
            frame = await _frame(reader)
            key, _, number = struct.unpack(">hhi", frame[:8])
            if key == 17:  # SaslHandshake
                writer.write(_framed(struct.pack(">ihi", number, 0, 1) + struct.pack(">h", 5) + b"PLAIN"))
                break
            on.write(_framed(frame))
            answer = await _frame(server)
            if key == 18 and answer[4:6] == b"\0\0":  # ApiVersions (0): that one can sign in
                count = struct.unpack(">i", answer[6:10])[0] + 1
                answer = answer[:6] + struct.pack(">ihhh", count, 17, 0, 1) + answer[10:]
            writer.write(_framed(answer))
        said = await _frame(reader)
        if not said.endswith(b"\0" + self._password.encode()):
            return False
        writer.write(_framed(b""))
        return True


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


def main() -> None:
    import confluent_kafka

    folder = os.path.join(os.path.dirname(os.path.dirname(confluent_kafka.__file__)), "confluent_kafka.libs")
    lib = ctypes.CDLL(glob.glob(os.path.join(folder, "librdkafka-*"))[0])
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    lib.rd_kafka_conf_new.restype = lib.rd_kafka_new.restype = lib.rd_kafka_handle_mock_cluster.restype = (
        pointer
    )
    lib.rd_kafka_mock_cluster_bootstraps.restype = text
    room = ctypes.create_string_buffer(500)
    conf = pointer(lib.rd_kafka_conf_new())
    lib.rd_kafka_conf_set(conf, b"test.mock.num.brokers", b"1", room, ctypes.c_size_t(500))
    client = pointer(lib.rd_kafka_new(0, conf, room, ctypes.c_size_t(500)))
    cluster = pointer(lib.rd_kafka_handle_mock_cluster(client))
    print(lib.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        what, *values = line.split()
        if what == "down":
            lib.rd_kafka_mock_broker_set_down(cluster, number(1))
        elif what == "up":
            lib.rd_kafka_mock_broker_set_up(cluster, number(1))
        elif what == "port":
            lib.rd_kafka_mock_broker_set_host_port(
                cluster, number(1), text(b"127.0.0.1"), number(int(values[0]))
            )
        elif what == "topic":
            lib.rd_kafka_mock_topic_set_error(cluster, text(values[0].encode()), number(int(values[1])))
        elif what == "produce":
            codes = (number * int(values[1]))(*[int(values[0])] * int(values[1]))
            lib.rd_kafka_mock_push_request_errors_array(
                cluster, ctypes.c_int16(0), ctypes.c_size_t(len(codes)), codes
            )
        print("ok", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(passed_on(int(sys.argv[1]), int(sys.argv[2])))
    elif sys.argv[1:]:
        asyncio.run(Door(int(sys.argv[1]), sys.argv[4]).stand(sys.argv[2], sys.argv[3]))
    else:
        main()
