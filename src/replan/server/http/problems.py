"""Problems as answers over HTTP (RFC 9457)."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, compile_path

from replan.core.types import JsonObject
from replan.errors import ReplanError
from replan.server.auth.refused import CHALLENGE
from replan.server.problems import (
    INTERNAL,
    KINDS,
    MEDIA_TYPE,
    MISFIT,
    NO_ROUTE,
    NOT_JSON,
    WRONG_METHOD,
    Problem,
    problem_of,
)
from replan.server.shared import request_id

log = logging.getLogger("replan.server")
_MOST_TOLD = 20


class Refused(HTTPException):
    """A call that is refused by what HTTP says of it; `problem` is the answer."""

    def __init__(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        super().__init__(problem.kind.status, problem.detail, headers)
        self.problem = problem


def answer_of(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    told = dict(headers or {})
    if problem.retry_after is not None:
        told["retry-after"] = str(max(1, math.ceil(problem.retry_after)))
    if problem.kind.status == 401:
        told.setdefault("www-authenticate", CHALLENGE)
    document = problem.document()
    if named := request_id.get():
        document["request_id"] = named
    return Response(
        to_json(document, inf_nan_mode="constants"),
        problem.kind.status,
        {**told, "cache-control": "no-store"},
        MEDIA_TYPE,
    )


def answer_problems(app: FastAPI) -> None:
    """Have every error answered as a problem."""
    app.add_exception_handler(ReplanError, _of_ours)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_misfit)
    app.add_exception_handler(Exception, _of_bug)


async def _of_ours(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.kind.status >= 500 and problem.kind.status not in (501, 503):
        log.error("%s %s: %s", request.method, request.url.path, error, exc_info=error)
    return answer_of(problem)


async def _of_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer_of(problem_of(error))


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if isinstance(error, Refused):
        return answer_of(error.problem, headers)
    path = request.url.path
    if error.status_code == 404:
        return answer_of(
            Problem(NO_ROUTE, f"there is nothing at {path}; /api/v1/openapi.json lists every call"), headers
        )
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        told = f"{path} does not take {request.method}; it takes {allowed}"
        return answer_of(Problem(WRONG_METHOD, told), {"allow": allowed})
    kind = next((one for one in KINDS.values() if one.status == error.status_code), INTERNAL)
    return answer_of(Problem(kind, str(error.detail)), headers)


def _methods(request: Request) -> set[str]:
    """That the address takes, by the document of the interface; what that does not have is read only."""
    found: set[str] = set()
    for path, calls in request.app.openapi()["paths"].items():
        if compile_path(path)[0].match(request.url.path):
            found |= {name.upper() for name in calls}
    for route in () if found else request.app.router.routes:  # of those that the document does not list
        methods = getattr(route, "methods", None)
        if methods and route.matches(request.scope)[0] is not Match.NONE:
            found |= methods
    found = found or {"GET"}
    return found | {"HEAD"} if "GET" in found else found


async def _of_misfit(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return answer_of(Problem(NOT_JSON, "the body is no JSON"))
    found = [_fault(fault) for fault in faults[:_MOST_TOLD]]
    told = "; ".join(f"{one['where']}: {one['what']}" for one in found)
    if len(faults) > _MOST_TOLD:
        told += f"; and {len(faults) - _MOST_TOLD} more"
    return answer_of(Problem(MISFIT, told, {"problems": found}))


def _fault(fault: Any) -> JsonObject:
    """Where it is and what is wrong with it; never the value, which may be a secret."""
    where = ".".join(str(part)[:100] for part in fault["loc"])
    what = str(fault["msg"])
    if fault["type"] == "missing":
        what = "it is missing; give it"
    if fault["type"] == "extra_forbidden":
        what = "there is no such name"
    return {"where": where, "what": what[:500]}


def nearest(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, 1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
