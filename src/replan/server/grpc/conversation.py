"""One task on one stream, both ways: its events and what waits for people out, what people say in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from replan.run.access.callers import Caller, reader
from replan.run.access.submitting import own_name
from replan.run.access.views import Submitted, TaskView
from replan.server.auth.credentials import Credentials
from replan.server.grpc.asked import after_of, showing, submission, task_of
from replan.server.grpc.calls import SAID, UNARY
from replan.server.grpc.messages import Misfit, filled, pb, read
from replan.server.grpc.statuses import status_of
from replan.server.grpc.watching import event_frames
from replan.server.shared import Shared

_MOST_WAITING = 64
"""Messages that wait for a slow reader; what makes them waits then."""
_LAST_WORDS_SECS = 0.25
"""So long after the last event, and after each thing that is said then, it is listened for what was said before the end was known."""
_MOST_LAST_WORDS_SECS = 2.0
_ASKS = frozenset({"approval_requested", "question_asked", "plan_review_requested"})


class Conversation:
    """What is said is carried out in the order in which it comes, one after the other."""

    def __init__(self, here: Shared, caller: Caller, credentials: Credentials) -> None:
        self._here = here
        self._credentials = credentials
        self._caller = caller
        self._reader = caller
        """The same, who may see what becomes of a task that was submitted here."""
        self._out: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_MOST_WAITING)
        self._shown: set[tuple[str, str | None]] = set()
        """What the reader knows to wait: ids, and what stands for the calls."""
        self._answering = asyncio.Lock()
        self._heard = asyncio.Event()
        """Something more was said, or nothing more is."""
        self._silent = False

    async def open(self, message: Any) -> None:
        """Take up the task that the first message is about."""
        match message.WhichOneof("request"):
            case "execute":
                opening = message.execute
                request, key = await submission(opening.task)
                if opening.cancel_with_call:
                    raise Misfit([("execute.cancel_with_call", "is for ExecuteTask: say `cancel` here")])
                self._opened: Submitted = await self._here.use_cases.submit(
                    self._caller, request, idempotency_key=key
                )
                self._reader = reader(self._caller)
            case "watch":
                opening = message.watch
                row = await self._here.use_cases.may_watch(self._caller, task_of(opening))
                self._opened = Submitted(task_id=row.task_id, status=row.status, new=False)
            case other:
                said = f"`{other}`" if other else "no request"
                raise Misfit([("", f"a conversation begins with `execute` or `watch`; it began with {said}")])
        self._after, self._how = after_of(opening), showing(self._here, opening)
        self._task_id = self._opened.task_id

    async def frames(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What goes out, to the task's end."""
        yield _response(opened=self._opened)
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(self._tell()), loop.create_task(self._listen(requests))}
        try:
            while (frame := await self._out.get()) is not None:
                if isinstance(frame, Exception):
                    raise frame
                yield frame
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _tell(self) -> None:
        end: Exception | None = None
        try:
            row = await self._here.use_cases.may_watch(self._reader, self._task_id)
            caught_up = self._after >= row.last_seq
            if caught_up:
                await self._tell_what_waits()
            async for frame in event_frames(self._here, row, self._after, self._how, self._credentials):
                await self._out.put(framed(frame))
                event = pb.Event.FromString(frame)
                if event.seq >= row.last_seq and (not caught_up or event.type in _ASKS):
                    caught_up = True
                    await self._tell_what_waits()
        except Exception as error:  # noqa: BLE001  (told at the end of the stream)
            end = error
        if end is None:
            await self._hear_last_words()
        async with self._answering:  # what is being carried out is answered before the end
            await self._out.put(end)

    async def _hear_last_words(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_LAST_WORDS_SECS):
                while not self._silent:
                    self._heard.clear()
                    async with asyncio.timeout(_LAST_WORDS_SECS):
                        await self._heard.wait()

    async def _tell_what_waits(self) -> None:
        for one in await self._here.use_cases.waits(self._reader, self._task_id):
            known = (one.waiting_for.id, one.hash)
            if known not in self._shown:
                self._shown.add(known)
                await self._out.put(_response(waiting=one))

    async def _listen(self, requests: AsyncIterator[bytes]) -> None:
        try:
            async for data in requests:
                self._heard.set()
                async with self._answering:
                    await self._out.put(await self._answered(data))
        finally:
            self._silent = True
            self._heard.set()

    async def _answered(self, data: bytes) -> bytes:
        request_id = ""
        try:
            message = read(data, pb.ConverseRequest)
            request_id = message.id
            found = await self._carry_out(message)
        except Exception as error:  # noqa: BLE001  (told, or logged)
            status = status_of(error)
            refused = {
                "id": request_id,
                "code": status.code.value[0],
                "reason": status.reason,
                "message": status.message,
                "retry_after_secs": status.retry_after,
            }
            return _response(refused=refused)
        done = {"id": request_id, "task": found if isinstance(found, TaskView) else None}
        return _response(done=done)

    async def _carry_out(self, message: Any) -> Any:
        name = message.WhichOneof("request")
        if name not in SAID:
            words = "which task this is about is said: say what is to be done" if name else "says nothing"
            raise Misfit([(name or "", f"{words}; there are {', '.join(SAID)}")])
        said = getattr(message, name)
        named = said.task_id or self._task_id
        if self._task_id not in (named, own_name(self._caller, named)):
            raise Misfit([(f"{name}.task_id", f"this conversation is about task {self._task_id!r}")])
        said.task_id = self._task_id
        return await UNARY[SAID[name]].call(self._here, self._caller, said)


def framed(event: bytes) -> bytes:
    """The response with an event that is encoded already."""
    return _EVENT + _length(len(event)) + event


def _length(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_EVENT = bytes([pb.ConverseResponse.DESCRIPTOR.fields_by_name["event"].number << 3 | 2])


def _response(**one: Any) -> bytes:
    response: bytes = filled(pb.ConverseResponse(), one).SerializeToString()
    return response
