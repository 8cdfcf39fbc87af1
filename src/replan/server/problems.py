"""What an error is to whoever calls: one table for all front ends."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from replan import errors as e
from replan.core.types import JsonObject
from replan.core.words import one_line

log = logging.getLogger("replan.server")
MEDIA_TYPE = "application/problem+json"
TYPE = "urn:replan:problem:"
"""Before the name of a kind: the `type` of a problem."""


class Kind(NamedTuple):
    """A kind of problem, as each front end says it."""

    name: str
    status: int
    """Of HTTP."""
    grpc: str
    """The name of gRPC's code."""
    title: str

    @property
    def type(self) -> str:
        return TYPE + self.name


def _name(error: type[e.ReplanError]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()


def _kind(error: type[e.ReplanError], status: int, grpc: str, title: str) -> tuple[type[e.ReplanError], Kind]:
    return error, Kind(_name(error), status, grpc, title)


OF_ERRORS: Mapping[type[e.ReplanError], Kind] = dict((
    _kind(e.InputError, 422, "INVALID_ARGUMENT", "What was given cannot be used"),
    _kind(e.PlanInvalid, 422, "INVALID_ARGUMENT", "The plan does not pass the checks"),
    _kind(e.TaskNotFound, 404, "NOT_FOUND", "No such task"),
    _kind(e.NoSuchPart, 404, "NOT_FOUND", "No such part"),
    _kind(e.TaskExists, 409, "ALREADY_EXISTS", "The id is taken by another request"),
    _kind(e.TaskUnfinished, 409, "FAILED_PRECONDITION", "The task has not ended"),
    _kind(e.TaskShared, 409, "FAILED_PRECONDITION", "Forks share the task's history"),
    _kind(e.SealedElsewhere, 409, "FAILED_PRECONDITION", "The task goes on in another database only"),
    _kind(e.TaskEnded, 409, "FAILED_PRECONDITION", "The task has ended"),
    _kind(e.TaskNotDone, 409, "FAILED_PRECONDITION", "The task has no result yet"),
    _kind(e.TooLate, 409, "FAILED_PRECONDITION", "The task stands otherwise by now"),
    _kind(e.SecretsMissing, 409, "FAILED_PRECONDITION", "Secrets have to be given again"),
    _kind(e.AnsweredBefore, 409, "FAILED_PRECONDITION", "Somebody was faster, or it is not what was shown"),
    _kind(e.NotSignedIn, 401, "UNAUTHENTICATED", "Who calls is not known"),
    _kind(e.NotAllowed, 403, "PERMISSION_DENIED", "The caller may not do that"),
    _kind(e.NotBuilt, 501, "UNIMPLEMENTED", "Not built yet"),
    _kind(e.TooMany, 429, "RESOURCE_EXHAUSTED", "Too much at once"),
    _kind(e.Unavailable, 503, "UNAVAILABLE", "Something that the service stands on does not answer"),
    _kind(e.ToolCallError, 502, "UNAVAILABLE", "A tool's call failed"),
    _kind(e.ModelError, 502, "UNAVAILABLE", "The model gave no usable answer"),
    _kind(e.ModelUnavailable, 503, "UNAVAILABLE", "The model cannot be asked"),
    _kind(e.StoreError, 500, "INTERNAL", "The store failed"),
    _kind(e.StoreBusy, 503, "UNAVAILABLE", "The database does not answer"),
    _kind(e.StoreFull, 503, "UNAVAILABLE", "The database is full"),
    _kind(e.StoreUnusable, 503, "UNAVAILABLE", "The database cannot be used"),
    _kind(e.StoreDamaged, 500, "DATA_LOSS", "What is stored is damaged"),
    _kind(e.StaleWriter, 409, "ABORTED", "Another process has the task now"),
    _kind(e.NotHeard, 409, "ABORTED", "Something else was written first"),
    _kind(e.TaskHeld, 409, "ABORTED", "Another process drives the task"),
    _kind(e.TaskGivenAway, 409, "FAILED_PRECONDITION", "The task was given away"),
    _kind(e.ReplanError, 500, "INTERNAL", "It failed"),
))  # fmt: skip
"""By class; one that is not here is what its nearest base is."""

NO_ROUTE = Kind("no-such-route", 404, "UNIMPLEMENTED", "No such address")
WRONG_METHOD = Kind("wrong-method", 405, "UNIMPLEMENTED", "The address does not take that method")
NOT_ACCEPTABLE = Kind("not-acceptable", 406, "INVALID_ARGUMENT", "No form that was asked for")
TOO_SLOW = Kind("too-slow", 408, "DEADLINE_EXCEEDED", "The request did not arrive in time")
BODY_TOO_LARGE = Kind("body-too-large", 413, "RESOURCE_EXHAUSTED", "The body is too large")
NOT_HTTP = Kind("not-http", 400, "INVALID_ARGUMENT", "No request of HTTP")
WRONG_MEDIA = Kind("wrong-media-type", 415, "INVALID_ARGUMENT", "The body is no JSON by its media type")
WRONG_HOST = Kind("wrong-host", 421, "INVALID_ARGUMENT", "The service is not called that")
WRONG_ORIGIN = Kind("wrong-origin", 403, "PERMISSION_DENIED", "Pages of that origin may not call the service")
SENT_TWICE = Kind("header-sent-twice", 400, "INVALID_ARGUMENT", "A header was sent twice that counts once")
NOT_JSON = Kind("not-json", 400, "INVALID_ARGUMENT", "The body cannot be read")
MISFIT = Kind("invalid-request", 422, "INVALID_ARGUMENT", "The request does not fit")
HEAD_TOO_LARGE = Kind("headers-too-large", 431, "RESOURCE_EXHAUSTED", "The head of the request is too large")
INTERNAL = Kind("internal", 500, "INTERNAL", "It failed here")
LEAVING = Kind("leaving", 503, "UNAVAILABLE", "The service is about to end")
CROWDED = Kind("too-many-connections", 503, "RESOURCE_EXHAUSTED", "Too many connections")
TIMED_OUT = Kind("timed-out", 504, "DEADLINE_EXCEEDED", "It took too long")

OF_THE_SERVICE = (
    NO_ROUTE, NOT_HTTP, SENT_TWICE, WRONG_METHOD, NOT_ACCEPTABLE, TOO_SLOW, BODY_TOO_LARGE, WRONG_MEDIA, WRONG_HOST, WRONG_ORIGIN, NOT_JSON, MISFIT, HEAD_TOO_LARGE, INTERNAL,
    LEAVING, CROWDED, TIMED_OUT,
)  # fmt: skip
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*OF_ERRORS.values(), *OF_THE_SERVICE)}


class Problem(NamedTuple):
    """What went wrong with a call, for whoever made it."""

    kind: Kind
    detail: str
    more: JsonObject = {}
    """Fields beside those of RFC 9457."""
    retry_after: float | None = None
    """Seconds."""

    def document(self) -> JsonObject:
        """Problem details (RFC 9457)."""
        kind = self.kind
        found = {"type": kind.type, "title": kind.title, "status": kind.status, "detail": self.detail}
        if self.retry_after is not None:
            found["retry_after"] = self.retry_after
        return {**found, **self.more}


def kind_of(error: type[Exception]) -> Kind:
    """Of the class itself, or of the nearest of its bases that is in the table."""
    for base in error.__mro__:
        if base in OF_ERRORS:
            return OF_ERRORS[base]
    return INTERNAL


def problem_of(error: Exception) -> Problem:
    """What is told of an error. One that is nobody's doing here tells nothing of itself: the log has it."""
    kind = kind_of(type(error))
    if kind is INTERNAL:
        return Problem(kind, "something went wrong in the service; its log says what")
    if (
        isinstance(error, e.StoreError) and kind.status >= 500
    ):  # its words name files, hosts and users of the service
        log.warning("the store: %s", one_line(str(error)))
        return Problem(kind, f"{kind.title.lower()}; the log of the service says why", {}, _again(error))
    more: dict[str, Any] = {}
    if isinstance(error, e.PlanInvalid):
        more["violations"] = list(error.violations)
    if isinstance(error, e.SecretsMissing):
        more["secrets"] = list(error.names)
    if isinstance(error, e.TaskNotDone):
        more["task_status"] = error.status
    return Problem(kind, str(error), more, _again(error))


def _again(error: Exception) -> float | None:
    if isinstance(error, e.StoreBusy):
        return 1.0
    return error.retry_after if isinstance(error, e.TooMany | e.Unavailable) else None
