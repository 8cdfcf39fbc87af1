"""What a service says that went wrong, as the errors that the library itself raises."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from replan import errors
from replan.errors import (
    InputError,
    NoSuchPart,
    NotAllowed,
    NotBuilt,
    NotSignedIn,
    PlanInvalid,
    ReplanError,
    ServiceError,
    TaskNotDone,
    TooMany,
)

MOST_BYTES = 262_144
"""Of a problem; more is not read."""


def _kinds() -> dict[str, type[ReplanError]]:
    every = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ReplanError)]
    return {re.sub(r"(?<!^)(?=[A-Z])", "-", one.__name__).lower(): one for one in every}


_KINDS = _kinds()
_BY_STATUS: Mapping[int, type[ReplanError]] = {
    401: NotSignedIn, 403: NotAllowed, 404: NoSuchPart, 429: TooMany, 501: NotBuilt,
}  # fmt: skip


def error_of(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> ReplanError:
    """The error that a service means, by the `type` of its problem; by the status where that is none of ours."""
    problem = _read(body)
    kind = str(problem.get("type", "")).rpartition(":")[2].rpartition("/")[2]
    fallback: type[ReplanError] = InputError if 400 <= status < 500 else ServiceError
    made = _KINDS.get(kind) or _BY_STATUS.get(status, fallback)
    detail = problem.get("detail") or problem.get("title") or ""
    if not detail or (kind not in _KINDS and not kind):
        detail = _foreign(status, body, str(detail))
    error = made.__new__(made)
    Exception.__init__(error, str(detail))
    _fill(error, status, problem, headers or {})
    return error


def _read(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _foreign(status: int, body: bytes, detail: str) -> str:
    """Of a gateway before the service, say."""
    said = detail or " ".join(body[:300].decode("utf-8", "replace").split())
    return f"the service answered {status}" + (f": {said}" if said else " and nothing else")


def _fill(error: ReplanError, status: int, problem: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """What such an error carries beside its words."""
    match error:
        case PlanInvalid():
            given = problem.get("violations")
            error.violations = tuple(map(str, given)) if isinstance(given, list) else ()
        case errors.SecretsMissing():
            names = problem.get("secrets")
            error.names = tuple(map(str, names)) if isinstance(names, list) else ()
        case TaskNotDone():
            error.status = str(problem.get("task_status", ""))
        case TooMany() | errors.Unavailable():
            error.retry_after = retry_after(headers, problem)
        case ServiceError():
            error.status = status
        case errors.ModelUnavailable():
            error.transient = error.refused = False
        case errors.AnswerInvalid():
            error.problems, error.text = (), ""
        case errors.TaskFailure():
            error.advice = ()
        case errors.UnresolvedReference():
            error.reference, error.available = "", ()
        case errors.TaskGivenAway():
            error.digest = ""
        case errors.ToolCallError():
            error.kind, error.happened, error.status, error.retry_after = "tool", None, None, None


def retry_after(headers: Mapping[str, str], problem: Mapping[str, Any] | None = None) -> float | None:
    """Seconds after which the service wants to be asked again."""
    for given in (headers.get("retry-after"), (problem or {}).get("retry_after")):
        try:
            secs = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if 0 <= secs < 86_400:
            return secs
    return None
