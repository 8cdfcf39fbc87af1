"""What the document of the interface says beside the calls themselves: problems, keys, examples."""

from __future__ import annotations

from typing import Any

from replan.core import types
from replan.core.report import result
from replan.run.access import requests, views
from replan.server.http import examples
from replan.server.http.described import describe
from replan.server.problems import KINDS, MEDIA_TYPE, Kind

PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "The kind, as `urn:replan:problem:NAME`.", "enum": sorted(kind.type for kind in KINDS.values())},
        "title": {"type": "string", "description": "The kind in words."},
        "status": {"type": "integer", "description": "The status of the answer."},
        "detail": {"type": "string", "description": "What was wrong, where, and what would be right."},
        "retry_after": {"type": "number", "description": "Seconds until it may be tried again."},
        "violations": {"type": "array", "items": {"type": "string"}, "description": "Of a plan: each rule that it breaks."},
        "problems": {
            "type": "array", "description": "Of a request that does not fit: each place.",
            "items": {"type": "object", "required": ["where", "what"], "properties": {"where": {"type": "string"}, "what": {"type": "string"}}},
        },
        "task_status": {"type": "string", "description": "Of a task that has not ended."},
        "request_id": {"type": "string", "description": "As the log has it."},
    },
}  # fmt: skip

SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key (`rpk_…`), or a token of the configured provider.",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key (`rpk_…`)."},
}

_DETAILS = {
    "invalid-request": "body.task_description: it is missing; give it",
    "not-json": "the body is no JSON: expected `,` or `}` at line 1 column 24",
    "not-signed-in": "give a key that is good: `Authorization: Bearer KEY` or `X-API-Key: KEY`",
    "not-allowed": "this needs the scope 'run' (submit tasks and step into them); the key or token has: read",
    "task-not-found": "there is no task 'task_01J' in this service",
    "no-such-part": "task 'task_01J' has no plan 3; there are: 1, 2",
    "task-exists": "task 'order-7' exists already with a different request; choose another id",
    "task-ended": "task 'task_01J' has ended (succeeded); an ended task never changes",
    "task-not-done": "task 'task_01J' has not ended (running): wait for its result (`?wait=SECS`), or watch its events",
    "answered-before": "approval 'a1' is for another call than the one that was shown: look at it again",
    "too-many": "1000 tasks wait for a place here, and no more may: try again later",
    "not-built": "a step cannot be skipped by a person yet",
    "leaving": "the service is about to end: try again in a moment",
    "body-too-large": "the body has more than 2097152 bytes, which is the most that is taken",
    "wrong-media-type": "the content type is 'text/plain'; send JSON, with `Content-Type: application/json`",
    "timed-out": "no answer within 60 s ([server] request_timeout_secs); what was asked for may yet be done",
    "too-slow": "the body has not come within 10 s",
    "internal": "something went wrong in the service; its log says what",
}
_TASK = ("task-not-found",)
_BODY = ("not-json", "too-slow", "body-too-large", "wrong-media-type")
_ALWAYS = (
    "not-signed-in",
    "not-allowed",
    "invalid-request",
    "headers-too-large",
    "wrong-host",
    "internal",
    "store-busy",
    "timed-out",
)


def complete(document: dict[str, Any], *, asked: bool) -> None:
    """Add what is said once for all calls. `asked`: callers have to say who they are."""
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM_SCHEMA
    parts["securitySchemes"] = SECURITY
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    describe(schemas, (requests, views, result, types))
    for path, calls in document["paths"].items():
        for call in calls.values():
            if asked and not path.endswith(("/health", "/ready")):
                call["security"] = [{name: []} for name in SECURITY]
            if bodies := examples.BODIES.get(call["operationId"]):
                call["requestBody"]["content"]["application/json"]["examples"] = bodies
            for status, response in call["responses"].items():
                content = response.get("content", {}).get("application/json")
                if content is not None and status.startswith("2"):
                    shown = examples.ANSWERS.get(call["operationId"], examples.TASK)
                    content.setdefault("examples", {"answer": {"summary": "An answer", "value": shown}})


def problems(*names: str, task: bool = False, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a call that may answer these problems; `task`: it names one, `body`: it has one."""
    wanted = [*_ALWAYS, *(_TASK if task else ()), *(_BODY if body else ()), *names]
    if body:
        wanted.append("leaving")
    by_status: dict[int, list[Kind]] = {}
    for name in dict.fromkeys(wanted):
        by_status.setdefault(KINDS[name].status, []).append(KINDS[name])
    return {status: _response(kinds) for status, kinds in sorted(by_status.items())}


def _response(kinds: list[Kind]) -> dict[str, Any]:
    examples = {
        kind.name: {
            "summary": kind.title,
            "value": {
                "type": kind.type, "title": kind.title, "status": kind.status,
                "detail": _DETAILS.get(kind.name, kind.title),
            },
        }
        for kind in kinds
    }  # fmt: skip
    return {
        "description": "; ".join(kind.title for kind in kinds),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}},
    }
