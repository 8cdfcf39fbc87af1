"""What is told to others of a task that waits for somebody, or has ended: small, whatever stands in its log."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from replan.core import events as e
from replan.core.audit.records import bounded, moment
from replan.core.types import Artifact, Failure, JsonObject
from replan.core.words import beginning, one_line

Kind = Literal["waiting", "ended"]
_MOST_IDS = 50
_SHOWN_CHARS = 1_000


class Notice(NamedTuple):
    """Of one event. `data`: all that the event itself says."""

    kind: Kind
    data: JsonObject
    waits_on: tuple[str, ...] = ()
    """Of one that waits: what for, so that two of which neither says anything new are alike."""

    def message(self, record: e.Record, *, tenant: str, description: str) -> JsonObject:
        """As it is sent: `{type, timestamp, data}`."""
        about: JsonObject = {"task_id": record.task_id, "seq": record.seq}
        if tenant:
            about["tenant"] = tenant
        about["description"] = _shown(description)
        return {"type": f"task.{self.kind}", "timestamp": moment(record.ts), "data": about | self.data}


def notice_of(event: e.AnyEvent) -> Notice | None:
    """None where there is nothing to tell: also of a wait that is over by itself."""
    match event:
        case e.TaskWaiting():
            return _waiting(event)
        case e.TaskCompleted():
            said = {"score": event.score, "output": _output(event.final_output, event.artifact)}
            return _ended(
                "succeeded", said | ({"shortfall": bounded(event.shortfall)} if event.shortfall else {})
            )
        case e.TaskFailed():
            said = {"score": event.score, "output": _output(event.final_output, event.artifact)}
            return _ended("failed", said | _failure(event.failure))
        case e.TaskCancelled():
            return _ended("cancelled", _failure(event.failure))
        case e.TaskTimedOut():
            return _ended("timed_out", _failure(event.failure))
        case _:
            return None


def _waiting(event: e.TaskWaiting) -> Notice | None:
    """Without callbacks: who knows such a token may use it."""
    if event.waits_for == ("time",):
        return None
    said: JsonObject = {
        "status": "waiting",
        "reason": _shown(event.reason),
        "waits_for": list(event.waits_for),
    }
    if event.until is not None:
        said["until"] = moment(event.until)
    for name, ids in (
        ("approvals", event.approvals),
        ("questions", event.questions),
        ("reviews", event.reviews),
    ):
        if ids:
            said[name] = list(ids[:_MOST_IDS])
            if len(ids) > _MOST_IDS:
                said[f"more_{name}"] = len(ids) - _MOST_IDS
    return Notice("waiting", said, _waits_on(event))


def _waits_on(event: e.TaskWaiting) -> tuple[str, ...]:
    kinds = [kind for kind in event.waits_for if kind != "time"]
    return (*kinds, *event.approvals, *event.questions, *event.callbacks, *event.secrets)


def _ended(status: str, said: JsonObject) -> Notice:
    return Notice("ended", {"status": status, **said})


def _failure(failure: Failure) -> JsonObject:
    return {"failure": {"kind": failure.kind, "reason": _shown(failure.reason)}}


def _output(value: Any, artifact: Artifact | None) -> Any:
    """The answer, or its beginning and its size."""
    if artifact is None:
        return bounded(value)
    return {"beginning": artifact.head[:_SHOWN_CHARS], "bytes": artifact.size}


def _shown(text: str) -> str:
    return beginning(one_line(beginning(text, 2 * _SHOWN_CHARS)), _SHOWN_CHARS)
