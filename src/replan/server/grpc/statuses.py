"""What is told of an error over gRPC: its code, its text, and the details of `google.rpc` in the trailing metadata."""

from __future__ import annotations

import importlib
import logging
from typing import Any, NamedTuple

import grpc

from replan.core.data.strict_json import storable
from replan.errors import ReplanError
from replan.server.grpc.messages import Misfit
from replan.server.problems import INTERNAL, MISFIT, Problem, problem_of
from replan.server.shared import request_id

DOMAIN = "replan"
DETAILS = "grpc-status-details-bin"
"""Where clients of gRPC look for a `google.rpc.Status`."""
_MOST_BYTES = 1_000
"""Of a text: clients refuse metadata of more than 8 KiB in all, and there it stands twice, what is not ASCII as three bytes for one."""
_MOST_FIELDS = 20

_details: Any = importlib.import_module("google.rpc.error_details_pb2")
_status: Any = importlib.import_module("google.rpc.status_pb2")
log = logging.getLogger("replan")


class Refused(Exception):
    """A call that is not taken, or not carried to its end."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Status(NamedTuple):
    """What a call ends with that went wrong."""

    code: grpc.StatusCode
    reason: str
    """For programs: the name of the problem over HTTP, as gRPC writes names."""
    message: str
    retry_after: float | None
    trailing: tuple[tuple[str, bytes], ...]


def status_of(error: Exception) -> Status:
    """Of an error that is nobody's doing the caller is told nothing, and the log everything."""
    if isinstance(error, Refused):
        return status(error.problem)
    problem = Problem(MISFIT, str(error)) if isinstance(error, Misfit) else problem_of(error)
    if problem.kind is INTERNAL and not isinstance(error, ReplanError):
        log.error("a call over gRPC failed", exc_info=error)
    return status(problem, error.fields if isinstance(error, Misfit) else ())


def status(problem: Problem, fields: tuple[tuple[str, str], ...] = ()) -> Status:
    code = grpc.StatusCode[problem.kind.grpc]
    words = _cut(problem.detail)
    told = _status.Status(code=code.value[0], message=words)
    reason = problem.kind.name.replace("-", "_").upper()
    titles = {"type": problem.kind.type, "title": problem.kind.title}
    if named := request_id.get():
        titles["request_id"] = named
    told.details.add().Pack(_details.ErrorInfo(reason=reason, domain=DOMAIN, metadata=titles))
    if problem.retry_after is not None:
        wait = _details.RetryInfo()
        wait.retry_delay.FromNanoseconds(int(problem.retry_after * 1e9))
        told.details.add().Pack(wait)
    if fields:
        shown = fields[:_MOST_FIELDS]
        one_each = _MOST_BYTES // len(shown)
        violations = [
            _details.BadRequest.FieldViolation(field=_cut(name, 100), description=_cut(why, one_each))
            for name, why in shown
        ]
        told.details.add().Pack(_details.BadRequest(field_violations=violations))
    return Status(code, reason, words, problem.retry_after, ((DETAILS, told.SerializeToString()),))


def _cut(text: str, most: int = _MOST_BYTES) -> str:
    """The text as far as it has room."""
    data = storable(text).encode()
    return storable(text) if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "…"
