"""Every call of the protocol: who calls, how many at once, how long, and what is told of what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
import grpc.aio

from replan.beside import beside
from replan.core.words import one_line
from replan.errors import ReplanError
from replan.run.access.callers import Caller, reader
from replan.server.grpc.asked import after_of, showing, submission, task_of
from replan.server.grpc.calls import UNARY, Unary
from replan.server.grpc.connections import Connections
from replan.server.grpc.conversation import Conversation
from replan.server.grpc.door import Call, Door
from replan.server.grpc.messages import encoder, pb, read
from replan.server.grpc.statuses import Refused
from replan.server.grpc.watching import event_frames
from replan.server.problems import TIMED_OUT, Problem
from replan.server.shared import Shared
from replan.server.turns import LARGE_BYTES

TASK_ID = "replan-task-id"
"""The metadata that names the task of ExecuteTask before its first event."""
_GONE = "the call that had submitted it was cancelled"
_PIECE = 64 * 1024
log = logging.getLogger("replan")
Handler = Callable[..., Any]


class Servicer:
    """The calls over `Shared`. Streams end when it is said that the process ends, and with an error that says how to go on."""

    def __init__(self, here: Shared, connections: Connections) -> None:
        self._here = here
        self._carrying = here.use_cases.carrying
        self._door = Door(here, connections)

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """By the name of the call. Messages are bytes here: what cannot be read is answered like any other fault of a caller.

        All are taken as streams of messages, also those that begin with one: who calls is known before it has come, and it comes in time.
        """
        streams = {
            "ExecuteTask": self.execute, "WatchTask": self.watch, "GetArtifact": self.artifact, "Converse": self.converse,
        }  # fmt: skip
        return {
            **{
                name: grpc.stream_unary_rpc_method_handler(self._unary(name, call))
                for name, call in UNARY.items()
            },
            **{name: grpc.stream_stream_rpc_method_handler(handler) for name, handler in streams.items()},
        }

    async def drained(self, secs: float) -> None:
        """Wait until no call is under way, for so long at most; what changes something is carried through."""
        await self._door.empty(secs)
        await self._carrying.all_ended(secs)

    # ── calls with one answer ──

    def _unary(self, name: str, what: Unary) -> Handler:
        encode = encoder(what.gives)

        async def answer(requests: AsyncIterator[bytes], context: Any) -> bytes:
            call = self._door.enter(context, name, holds=not what.timed)
            try:
                caller, data = await self._door.let_in(call, requests)
                message = read(data, what.takes)
                with self._here.turns.turn(caller) as turn:
                    doing = what.call(self._here, caller, message, *((turn.begin,) if what.in_turn else ()))
                    found = await self._done(call, doing, timed=what.timed)
                    told: bytes = await beside(encode, found) if what.heavy else encode(found)
                self._door.check_size(call, len(told))
                if len(told) > LARGE_BYTES and not context.done():
                    call.leaving.append(self._here.turns.untaken(caller, len(told)))
            except TimeoutError:
                words = "it took longer than a call may take here ([server] request_timeout_secs)"
                await call.refuse(Refused(Problem(TIMED_OUT, words)))
            except Exception as error:  # noqa: BLE001  (told, or logged)
                await call.refuse(error)
            call.done()
            return told

        return answer

    async def _done(self, call: Call, doing: Coroutine[Any, Any, Any], *, timed: bool) -> Any:
        """What it gives, in time, or as long as the caller is known."""
        if timed:
            async with asyncio.timeout(self._here.settings.server.request_timeout_secs):
                return await doing
        found = await self._here.staying.unless_gone(call.credentials, doing)
        await self._here.authenticate(call.credentials)
        return found

    # ── streams ──

    async def watch(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call = self._door.enter(context, "WatchTask", stream=True)
        try:
            caller, data = await self._door.let_in(call, requests)
            message = read(data, pb.WatchTaskRequest)
            how = showing(self._here, message)
            row = await self._here.use_cases.may_watch(caller, task_of(message))
            async for frame in event_frames(self._here, row, after_of(message), how, call.credentials):
                yield frame
            call.done()
        except Exception as error:  # noqa: BLE001
            await call.refuse(error)

    async def execute(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call = self._door.enter(context, "ExecuteTask", stream=True)
        try:
            caller, data = await self._door.let_in(call, requests)
            message = read(data, pb.ExecuteTaskRequest)
            how, after = showing(self._here, message), after_of(message)
            request, key = await submission(message.task)
            begun = self._carrying.begin(self._here.use_cases.submit(caller, request, idempotency_key=key))
            if message.cancel_with_call:
                context.add_done_callback(lambda _: self._cancel_with(call, begun, caller))
            submitted = await asyncio.shield(begun)
            await context.send_initial_metadata(((TASK_ID, submitted.task_id),))
            row = await self._here.use_cases.may_watch(reader(caller), submitted.task_id)
            async for frame in event_frames(self._here, row, after, how, call.credentials):
                yield frame
            call.done()
        except Exception as error:  # noqa: BLE001
            await call.refuse(error)

    def _cancel_with(self, call: Call, begun: asyncio.Task[Any], caller: Caller) -> None:
        """Cancel the task of a call that was cancelled, or whose deadline has passed."""
        if call.code == "CANCELLED" and not self._here.leaving.now:
            self._carrying.begin(self._cancel(begun, caller))

    async def _cancel(self, begun: asyncio.Task[Any], caller: Caller) -> None:
        await asyncio.wait({begun})
        if begun.exception() is not None:
            return
        task_id = begun.result().task_id
        try:
            await self._here.use_cases.cancel(caller, task_id, _GONE)
        except ReplanError as error:  # it has ended, say
            log.info("task %s is not cancelled with its call: %s", task_id, one_line(str(error)))

    async def artifact(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call = self._door.enter(context, "GetArtifact", stream=True)
        try:
            caller, data = await self._door.let_in(call, requests)
            message = read(data, pb.ArtifactRequest)
            kept = await self._here.use_cases.artifact(caller, task_of(message), message.artifact_id)
            head = {"media_type": kept.media_type, "size": kept.size}
            async for piece in kept.pieces:
                for start in range(0, len(piece), _PIECE):
                    yield pb.ArtifactPiece(data=piece[start : start + _PIECE], **head).SerializeToString()
                    head = {}
            if head:  # nothing in it
                yield pb.ArtifactPiece(**head).SerializeToString()
            call.done()
        except Exception as error:  # noqa: BLE001
            await call.refuse(error)

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call = self._door.enter(context, "Converse", stream=True)
        try:
            caller, first = await self._door.let_in(call, requests, "`execute` or `watch`")
            conversation = Conversation(self._here, caller, call.credentials)
            await conversation.open(read(first, pb.ConverseRequest))
            async for frame in conversation.frames(requests):
                yield frame
            call.done()
        except Exception as error:  # noqa: BLE001
            await call.refuse(error)
