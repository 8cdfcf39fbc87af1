"""The events of a task as they come, over as many connections as it takes: no gap, no double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
from pydantic_core import from_json

from replan.client.connection import Connection, Refused, task_path, unreachable
from replan.core.events import TERMINAL, Record, read
from replan.errors import ReplanError, ServiceError, ServiceUnreachable

LIVED_SECS = 5.0
"""A connection that has held for so long was a good one."""
MOST_BYTES = 256 * 2**20
"""Of one event: a stream without an end of a line would fill the memory."""


class Frames:
    """Server-sent events out of bytes, however they are cut: the `data` of each, which says all that stands beside it."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._looked = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        self._rest += piece
        if len(self._rest) > MOST_BYTES:
            raise ServiceError(f"an event of over {MOST_BYTES} bytes comes from the service")
        while (end := self._rest.find(b"\n", self._looked)) >= 0:
            line = bytes(self._rest[:end]).removesuffix(b"\r")
            del self._rest[: end + 1]
            self._looked = 0
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" "))
                continue
            found, self._data = self._data, []
            if found:
                yield b"\n".join(found)
        self._looked = len(self._rest)


def record_of(wire: Any) -> Record:
    """A record as the service writes it; a kind of event that is not known here is kept as it is."""
    try:
        return Record(
            int(wire["seq"]),
            str(wire["task_id"]),
            float(wire["ts"]),
            int(wire["round"]),
            read(str(wire["type"]), dict(wire["data"])),
        )
    except (KeyError, TypeError, ValueError):
        raise ServiceError("what came from the service is no event of a task") from None


async def follow(
    connection: Connection, task_id: str, after: int, *, ephemeral: bool
) -> AsyncIterator[Record]:
    """Every record after `after` to the task's end. A connection that breaks is made anew, from the last record that came."""
    pauses = connection.pauses()
    now = asyncio.get_running_loop().time
    while True:
        least: float | None = None
        begun = now()
        problem: ReplanError = ServiceUnreachable(
            f"the service at {connection.url} ends the stream of task {task_id!r} again and again"
        )
        try:
            headers = {"accept": "text/event-stream", "last-event-id": str(after)}
            async with connection.streamed(f"{task_path(task_id)}/events", headers=headers) as response:
                if response.status_code == httpx2.codes.NO_CONTENT:
                    return  # it has ended, and there is nothing more
                async for record in _records(response):
                    if record.seq == 0:
                        if ephemeral:
                            yield record
                        continue
                    if record.seq <= after:
                        continue
                    if record.seq > after + 1:
                        problem = ServiceError(
                            f"the service leaves out events of task {task_id!r} after event {after}"
                        )
                        break
                    after = record.seq
                    pauses.succeeded()
                    yield record
                    if isinstance(record.event, TERMINAL):
                        return
        except ServiceError as error:
            problem = error
        except httpx2.TransportError as error:
            problem = unreachable(connection, error)
        except Refused as refused:
            if not refused.passes:
                raise refused.error from None
            problem, least = refused.error, refused.retry_after
        if now() - begun > LIVED_SECS:
            pauses.succeeded()
        await pauses.pause(problem, least)


async def _records(response: httpx2.Response) -> AsyncIterator[Record]:
    frames = Frames()
    async for piece in response.aiter_bytes():
        for data in frames.feed(piece):
            try:
                wire = from_json(data)
            except ValueError as error:
                raise ServiceError(f"what came from the service is no event of a task: {error}") from None
            yield record_of(wire)
