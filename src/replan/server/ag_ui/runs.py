"""`POST /ag-ui`: a run of AG-UI is a task, or the answer to what one waits for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput
from ag_ui.encoder import EventEncoder
from fastapi import FastAPI
from starlette.responses import Response, StreamingResponse

from replan.core.state.task import ENDED
from replan.errors import InputError, NotSignedIn, TooMany
from replan.run.access.callers import need, reader
from replan.run.access.requests import SubmitRequest
from replan.server.ag_ui.answers import answered, read
from replan.server.ag_ui.story import Story
from replan.server.http.calls import Call, calls_about, credentials_of
from replan.server.http.large import LARGE_BYTES
from replan.server.streams.sse import BEAT, CutOffWhenStuck
from replan.server.told import events_until_it_stands

PATH = "/ag-ui"
router = calls_about("ag-ui", prefix="", listed=False)
_NO_STORE = {"cache-control": "no-store", "x-accel-buffering": "no"}


def mount(app: FastAPI) -> None:
    app.router.routes.extend(router.routes)


@router.post(PATH)
async def run(call: Call, body: dict[str, Any]) -> Response:
    """Begin a task, or answer one and go on with it; its events until it stands still. The same `runId` is the same run."""
    asked = read(RunAgentInput, body, "the run")
    if asked.resume:
        need(call.caller, "read")  # before anything is done that nothing could be told of
        task_id, after = await answered(call, asked.resume)
    else:
        request = _request_of(asked)
        key = f"ag-ui:{asked.run_id}"
        made = await call.cases.submit(call.caller, request, idempotency_key=key[:200])
        task_id, after = made.task_id, 0
    story = Story(asked.thread_id, asked.run_id, task_id)
    stream = StreamingResponse(_told(call, story, task_id, after), 200, _NO_STORE, "text/event-stream")
    return CutOffWhenStuck(stream, call.shared.sending)


async def _told(call: Call, story: Story, task_id: str, after: int) -> AsyncIterator[bytes]:
    cases, caller, encoder = call.cases, reader(call.caller), EventEncoder()

    def sse(event: BaseEvent) -> bytes:
        frame: str = encoder.encode(event)
        return frame.encode()

    for one in story.begins(await cases.task(caller, task_id)):
        yield sse(one)
    plan: Any = None
    try:
        async for events in events_until_it_stands(call.shared, caller, credentials_of(call), task_id, after):
            parts: list[bytes] = []
            for event in events:
                parts += map(sse, story.after(event))
                if (brought := story.plan_of(event)) is not None:
                    plan = brought
                    parts.append(sse(story.state(await cases.task(caller, task_id), plan)))
            yield b"".join(parts) or BEAT
    except NotSignedIn as error:  # the key was revoked, or the token is over
        yield b"".join(map(sse, story.breaks_off(str(error), "not-signed-in")))
        return
    task = await cases.task(caller, task_id)
    state = story.state(task, plan)
    if task.status in ENDED:
        try:
            with call.shared.turns.turn(caller) as turn:
                result = await cases.result(caller, task_id, begin=turn.begin)
                whole = b"".join(map(sse, story.ends(result, state)))
            with contextlib.ExitStack() as ends:
                if len(whole) > LARGE_BYTES:
                    ends.callback(call.shared.turns.untaken(caller, len(whole)))
                for at in range(0, len(whole), LARGE_BYTES):  # the next one once the one before it is taken
                    yield whole[at : at + LARGE_BYTES]
        except TooMany as error:
            yield b"".join(map(sse, story.breaks_off(f"{error}; then send the run again", "too-many")))
        return
    if waiting := await cases.waits(caller, task_id):
        last = story.waits(waiting, state)
    elif task.waiting_for:
        last = story.breaks_off(task.waiting_for[0].text, task.waiting_for[0].kind)
    else:
        last = story.breaks_off(
            "the service is about to end; the task goes on: send the run again", "leaving"
        )
    yield b"".join(map(sse, last))


def _request_of(asked: RunAgentInput) -> SubmitRequest:
    """The task that a run asks for: the last words of its user, in the session of its thread."""
    said = next((one for one in reversed(asked.messages) if one.role == "user"), None)
    text = "" if said is None else _text_of(said.content)
    if not text:
        raise InputError("messages: the last message of the user has no text; it is the task")
    props = asked.forwarded_props if isinstance(asked.forwarded_props, dict) else {}
    given: dict[str, Any] = {
        "task_description": text,
        "context": {"session_id": asked.thread_id} if asked.thread_id else {},
        **{name: props[name] for name in ("metadata", "options") if name in props},
    }
    return read(SubmitRequest, given, "forwardedProps")


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if getattr(part, "type", "") == "text")
