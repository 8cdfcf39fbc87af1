"""The events of a task as they go out over gRPC: encoded once for all who watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from replan.core.events import TERMINAL, LlmToken, Record
from replan.ports import TaskSummary
from replan.run.access.shown import Showing, shown
from replan.server.auth.credentials import Credentials
from replan.server.grpc.messages import event_bytes, pb
from replan.server.grpc.statuses import Refused
from replan.server.problems import LEAVING, Problem
from replan.server.shared import Shared

_STORED = pb.Event.DESCRIPTOR.fields_by_name["seq"].number << 3
"""How the bytes of an event begin that has a number: a field that is 0 is left out."""


_ENDS = frozenset(kind.model_fields["type"].default for kind in TERMINAL)


@dataclass(frozen=True)
class EventForm:
    """An event as one message."""

    how: Showing

    def __call__(self, record: Record) -> bytes:
        if self.how.light and isinstance(record.event, LlmToken):
            return b""
        return event_bytes(shown(record, self.how))


async def event_frames(
    here: Shared, summary: TaskSummary, after: int, how: Showing, credentials: Credentials
) -> AsyncIterator[bytes]:
    """Every event after that one, to the task's end. `Refused` where the process ends before, `NotSignedIn` where the key does."""
    last = b""
    with here.staying.while_known(credentials, here.hub.watch(summary, after, EventForm(how))) as watcher:
        while (frames := await watcher.next()) is not None:
            for frame in frames:
                if frame[0] == _STORED:
                    last = frame
                yield frame
    told = pb.Event.FromString(last)
    if told.type in _ENDS:
        return
    if here.hub.stopped:
        raise Refused(_leaving(told.seq or after))
    await here.authenticate(credentials)  # who is known no more is told so


def _leaving(seq: int) -> Problem:
    words = f"this service is about to end; the task goes on: watch it again with after={seq}"
    return Problem(LEAVING, words, retry_after=1.0)
