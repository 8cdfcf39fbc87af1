"""Every call of the protocol: who calls, how many at once, how long, and what is told of what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio

from replan.beside import beside
from replan.core.words import in_digits, one_line
from replan.errors import ReplanError
from replan.run.access.callers import Caller, reader
from replan.server.auth.credentials import Credentials
from replan.server.carrying import Carrying
from replan.server.grpc.asked import after_of, showing, submission, task_of
from replan.server.grpc.calls import UNARY, Unary
from replan.server.grpc.conversation import Conversation
from replan.server.grpc.messages import Misfit, encoder, pb, read
from replan.server.grpc.statuses import Refused, Status, status, status_of
from replan.server.grpc.watching import event_frames
from replan.server.problems import CROWDED, LEAVING, TIMED_OUT, Problem
from replan.server.shared import Shared

TASK_ID = "replan-task-id"
"""The metadata that names the task of ExecuteTask before its first event."""
_GONE = "the call that had submitted it was cancelled"
_PIECE = 64 * 1024
log = logging.getLogger("replan")
Handler = Callable[..., Any]


class Servicer:
    """The calls over `Shared`. Streams end when it is said that the process ends, and with an error that says how to go on."""

    def __init__(self, here: Shared) -> None:
        self._here = here
        self._carrying = Carrying()
        self._open = 0
        """Calls under way."""
        self._streams = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """By the name of the call. Messages are bytes here: what cannot be read is answered like any other fault of a caller."""
        streams = {"ExecuteTask": self.execute, "WatchTask": self.watch, "GetArtifact": self.artifact}
        return {
            **{name: grpc.unary_unary_rpc_method_handler(self._unary(call)) for name, call in UNARY.items()},
            **{name: grpc.unary_stream_rpc_method_handler(handler) for name, handler in streams.items()},
            "Converse": grpc.stream_stream_rpc_method_handler(self.converse),
        }

    async def drained(self, secs: float) -> None:
        """Wait until no call is under way, for so long at most."""
        try:
            async with asyncio.timeout(secs):
                await self._idle.wait()
                await self._carrying.all_ended()
        except TimeoutError:
            log.info("%d calls over gRPC are cut off as the service ends", self._open)

    # ── calls with one answer ──

    def _unary(self, call: Unary) -> Handler:
        encode = encoder(call.gives)

        async def answer(data: bytes, context: Any) -> bytes:
            self._begin(context, stream=False)
            try:
                caller = await self._caller(context)
                message = read(data, call.takes)
                limit = self._here.settings.server.request_timeout_secs if call.timed else None
                async with asyncio.timeout(limit):
                    doing = call.call(self._here, caller, message)
                    found = await (self._carrying.through(doing) if call.acts else doing)
                if not call.timed:  # a key may have been revoked while it waited
                    await self._here.authenticate(_credentials(context))
                return await beside(encode, found) if call.heavy else encode(found)
            except TimeoutError:
                await _abort(context, status(Problem(TIMED_OUT, "it took longer than a call may take here")))
            except Exception as error:  # noqa: BLE001  (told, or logged)
                await _abort(context, status_of(error))

        return answer

    # ── streams ──

    async def watch(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        self._begin(context, stream=True)
        try:
            caller = await self._caller(context, stream=True)
            message = read(data, pb.WatchTaskRequest)
            how = showing(self._here, message)
            row = await self._here.use_cases.may_watch(caller, task_of(message))
            async for frame in event_frames(self._here, row, after_of(message), how, _credentials(context)):
                yield frame
        except Exception as error:  # noqa: BLE001
            await _abort(context, status_of(error))

    async def execute(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        self._begin(context, stream=True)
        cut_off = True
        try:
            caller = await self._caller(context, stream=True)
            message = read(data, pb.ExecuteTaskRequest)
            how, after = showing(self._here, message), after_of(message)
            request, key = await submission(message.task)
            begun = self._carrying.begin(self._here.use_cases.submit(caller, request, idempotency_key=key))
            if message.cancel_with_call:
                context.add_done_callback(lambda _: self._cancel_with(begun, caller) if cut_off else None)
            submitted = await asyncio.shield(begun)
            await context.send_initial_metadata(((TASK_ID, submitted.task_id),))
            row = await self._here.use_cases.may_watch(reader(caller), submitted.task_id)
            async for frame in event_frames(self._here, row, after, how, _credentials(context)):
                yield frame
            cut_off = False
        except Exception as error:  # noqa: BLE001
            cut_off = False
            await _abort(context, status_of(error))

    def _cancel_with(self, begun: asyncio.Task[Any], caller: Caller) -> None:
        """Cancel the task of a call that was cancelled, or whose deadline has passed."""
        if not self._here.leaving.now:
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

    async def artifact(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        self._begin(context, stream=True)
        try:
            caller = await self._caller(context, stream=True)
            message = read(data, pb.ArtifactRequest)
            kept = await self._here.use_cases.artifact(caller, task_of(message), message.artifact_id)
            head = {"media_type": kept.media_type, "size": kept.size}
            async for data in kept.pieces:
                for start in range(0, len(data), _PIECE):
                    yield pb.ArtifactPiece(data=data[start : start + _PIECE], **head).SerializeToString()
                    head = {}
            if head:  # nothing in it
                yield pb.ArtifactPiece(**head).SerializeToString()
        except Exception as error:  # noqa: BLE001
            await _abort(context, status_of(error))

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        self._begin(context, stream=True)
        try:
            caller = await self._caller(context, stream=True)
            first = await self._first(requests)
            conversation = Conversation(self._here, caller, self._carrying, _credentials(context))
            await conversation.open(read(first, pb.ConverseRequest))
            async for frame in conversation.frames(requests):
                yield frame
        except Exception as error:  # noqa: BLE001
            await _abort(context, status_of(error))

    async def _first(self, requests: AsyncIterator[bytes]) -> bytes:
        """What a conversation begins with."""
        secs = self._here.settings.server.request_timeout_secs
        try:
            async with asyncio.timeout(secs):
                return await anext(aiter(requests))
        except StopAsyncIteration:
            raise Misfit(
                [("", "a conversation begins with `execute` or `watch`, and nothing was said")]
            ) from None
        except TimeoutError:
            words = f"a conversation begins with `execute` or `watch`, and nothing was said for {in_digits(secs)} s"
            raise Refused(Problem(TIMED_OUT, words)) from None

    # ── each call ──

    def _begin(self, context: Any, *, stream: bool) -> None:
        self._open += 1
        self._streams += stream
        self._idle.clear()
        context.add_done_callback(lambda _: self._end(stream))

    def _end(self, stream: bool) -> None:
        self._open -= 1
        self._streams -= stream
        if not self._open:
            self._idle.set()

    async def _caller(self, context: Any, *, stream: bool = False) -> Caller:
        """Who calls, if the call is taken at all."""
        if self._here.leaving.now:
            raise Refused(
                Problem(
                    LEAVING, "this service is about to end: call again, elsewhere or later", retry_after=1.0
                )
            )
        most = self._here.settings.server.max_connections
        if stream and self._streams > most:
            raise Refused(
                Problem(CROWDED, f"{most} streams are open here, and no more may be", retry_after=1.0)
            )
        return await self._here.signed(_credentials(context))


def _credentials(context: Any) -> Credentials:
    return Credentials.of(context.invocation_metadata() or (), context.peer())


async def _abort(context: Any, found: Status) -> NoReturn:
    await context.abort(found.code, found.message, found.trailing)
    raise AssertionError  # `abort` raises
