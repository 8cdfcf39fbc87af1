"""The events of a task: as they come (SSE), or by page (JSON)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Header
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response

from replan.core.state.task import ENDED
from replan.run.access.shown import Showing, shown
from replan.server.http import examples
from replan.server.http.calls import Call, calls_about, credentials_of
from replan.server.http.large import answer
from replan.server.http.openapi import problems
from replan.server.http.problems import Refused
from replan.server.http.routes import parameters as p
from replan.server.problems import LEAVING, MISFIT, NOT_ACCEPTABLE, Problem
from replan.server.streams.hub import Watcher
from replan.server.streams.sse import EventStream, Sse

router = calls_about("events")
_READ_AT_ONCE = 50
_MOST_BYTES = 1_048_576
"""Of a page: it ends there, also where more events were asked for."""
_SEQ = re.compile(r"\d{1,16}", re.ASCII)
_JSON = ("application/json", "application/*")
_STREAM = ("text/event-stream", "text/*", "*/*")


class Event(BaseModel):
    seq: int
    task_id: str
    ts: float
    """Unix seconds."""
    round: int
    type: str
    data: dict[str, Any]


class EventPage(BaseModel):
    items: list[Event]
    next_after: int | None = None
    """Give it as `after` for what comes after these; null: that was all so far."""


@router.get(
    "/tasks/{task_id}/events",
    response_class=Response,
    responses={
        200: {
            "description": "The events: a stream, or a page with `Accept: application/json`",
            "model": EventPage,
            "content": {
                "text/event-stream": {"schema": {"type": "string"}, "examples": examples.STREAM},
                "application/json": {},
            },
        },
        204: {"description": "The task has ended, and there is nothing after that event: do not come back"},
        **problems("not-acceptable", "too-many", "leaving", task=True),
    },
)  # fmt: skip
async def events(
    call: Call,
    task_id: p.TaskId,
    after: p.After = 0,
    limit: p.Limit = 100,
    view: p.Light = "full",
    accept: Annotated[str, Header(max_length=1000)] = "*/*",
    last_event_id: p.LastEventId = None,
) -> Response:
    """Every event after `after`, then those to come, until the task has ended: that is its last event.

    The `id` of each is its `seq`; a stream that was cut off goes on with `Last-Event-ID`, without a gap and without a double.
    Tokens and progress have no id: they are stored nowhere. A line `:` is a sign of life.
    """
    if last_event_id:
        after = _seq_of(last_event_id)
    shared = call.shared
    how = Showing(shared.settings.response.mode, view == "light")
    if _wants_page(accept):
        return await _page(call, task_id, after, limit, how)
    summary = await call.cases.may_watch(call.caller, task_id)
    if shared.leaving.now or shared.hub.stopped:
        raise Refused(Problem(LEAVING, "the service is about to end: come back in a moment", retry_after=1.0))
    if summary.status in ENDED and after >= summary.last_seq:
        return Response(status_code=204)
    credentials = credentials_of(call)

    @contextlib.contextmanager
    def watching() -> Iterator[Watcher]:
        watch = shared.hub.watch(summary, after, Sse(how))
        with shared.holding.place(call.caller), shared.staying.while_known(credentials, watch) as watcher:
            yield watcher

    return EventStream(
        watching,
        shared.sending,
        lambda: shared.hub.stopped,
    )


async def _page(call: Call, task_id: str, after: int, limit: int, how: Showing) -> Response:
    parts: list[bytes] = []
    size = 0
    more: int | None = None
    while more is None and len(parts) < limit:
        wanted = min(_READ_AT_ONCE, limit - len(parts))
        records = await call.cases.events(call.caller, task_id, after=after, limit=wanted)
        for record in records:
            if size > _MOST_BYTES:
                more = after
                break
            parts.append(to_json(shown(record, how), inf_nan_mode="constants"))
            size += len(parts[-1])
            after = record.seq
        if len(records) < wanted:
            break
    else:
        more = after if more is None else more
    told = b"null" if more is None else b"%d" % more
    return answer(b'{"items":[%b],"next_after":%b}' % (b",".join(parts), told))


def _seq_of(given: str) -> int:
    if not _SEQ.fullmatch(given.strip()):
        what = "it is the id of an event: a number"
        found = {"where": "header.Last-Event-ID", "what": what}
        raise Refused(Problem(MISFIT, f"header.Last-Event-ID: {what}", {"problems": [found]}))
    return int(given)


def _wants_page(accept: str) -> bool:
    """Whether JSON is asked for before a stream."""
    asked: list[tuple[float, str]] = []
    for part in accept.split(","):
        media, *settings = (piece.strip().lower() for piece in part.split(";"))
        quality = next((one[2:] for one in settings if one.startswith("q=")), "1")
        try:
            asked.append((float(quality), media))
        except ValueError:
            asked.append((0.0, media))
    for _, media in sorted((one for one in asked if one[0] > 0), key=lambda one: -one[0]):
        if media in _JSON:
            return True
        if media in _STREAM or media == "":
            return False
    raise Refused(Problem(NOT_ACCEPTABLE, "there is text/event-stream and application/json"))
