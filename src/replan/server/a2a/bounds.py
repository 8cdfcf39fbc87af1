"""What of a call of A2A is looked at before the SDK reads it: it does that in the event loop, value by value."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from replan.core.walk import every

MOST_PARTS = 1_000
MOST_VALUES = 20_000
_INVALID_PARAMS = -32602


async def too_much(request: Request) -> Response | None:
    """The answer to a call that holds more than is read; None: it may be read."""
    try:
        body = await request.json()  # kept by the request, so that it is read once
    except (ValueError, RecursionError):
        return None  # told by whoever reads it
    problem = _problem(body.get("params")) if isinstance(body, dict) else ""
    if not problem:
        return None
    number = body.get("id")
    error = {"code": _INVALID_PARAMS, "message": problem}
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return JSONResponse({"jsonrpc": "2.0", "id": known, "error": error})


def _problem(params: Any) -> str:
    if not isinstance(params, dict):
        return ""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if isinstance(parts, list) and len(parts) > MOST_PARTS:
        return (
            f"message.parts: there are {len(parts):,}; at most {MOST_PARTS:,} are taken: write the text in one part, "
            "and what belongs together in one object"
        )
    if any(True for _ in islice(every(params), MOST_VALUES, None)):
        return f"params: it holds more than {MOST_VALUES:,} values; hand in large metadata as a text, or with POST /api/v1/tasks"
    return ""
