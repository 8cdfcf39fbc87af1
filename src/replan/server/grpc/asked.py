"""What the messages of callers say, as the use cases take it; large ones are read beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from replan.beside import beside
from replan.core.types import JsonObject
from replan.run.access.requests import Body, SubmitRequest
from replan.run.access.shown import Showing
from replan.server.grpc.messages import Misfit, body, pb, values_of
from replan.server.shared import Shared

_AT_ONCE = 65_536
"""Bytes of a message that are read in the event loop."""

T = TypeVar("T")
B = TypeVar("B", bound=Body)


async def _read(message: Any, how: Callable[[Any], T]) -> T:
    return await beside(how, message) if message.ByteSize() > _AT_ONCE else how(message)


async def submission(message: Any) -> tuple[SubmitRequest, str | None]:
    """The request for a task, and its idempotency key."""
    return await _read(message, _submission)


def _submission(message: Any) -> tuple[SubmitRequest, str | None]:
    values = values_of(message)
    key = values.pop("idempotency_key", None)
    context = dict(values.get("context", {}))
    more = context.pop("more", {})
    if not isinstance(more, dict):
        raise Misfit([("context.more_json", "has to be an object")])
    return body(SubmitRequest, {**values, "context": {**more, **context}}), key


async def said(kind: type[B], message: Any, *apart: str, **more: Any) -> B:
    """The body of a call: what the message has, apart from these fields; `more` where it has nothing."""

    def made(message: Any) -> B:
        values = {name: value for name, value in values_of(message).items() if name not in apart}
        return body(kind, {**more, **values})

    return await _read(message, made)


def showing(here: Shared, message: Any) -> Showing:
    """How events are shown to whoever sent this."""
    if message.view not in (pb.FULL, pb.LIGHT):
        raise Misfit([("view", f"{message.view} is none; there are FULL (0) and LIGHT (1)")])
    return Showing(mode=here.settings.response.mode, light=message.view == pb.LIGHT)


def after_of(message: Any) -> int:
    return count(message, "after", 0)


def task_of(message: Any) -> str:
    return text(message, "task_id")


def text(message: Any, name: str) -> str:
    given: str = getattr(message, name)
    if not given:
        raise Misfit([(name, "is missing")])
    return given


def count(message: Any, name: str, default: int) -> int:
    number: int = getattr(message, name)
    if number < 0:
        raise Misfit([(name, f"has to be 0 or more, not {number}")])
    return number or default


def items(found: Any) -> JsonObject:
    return {"items": found}
