"""The tool service over gRPC, seen from the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from replan.core.types import JsonObject
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.files import read_bounded
from replan.ports import Progress
from replan.tools.bounds import too_large
from replan.tools.large_json import taken
from replan.tools.remote.client.transport import Endpoint, TransportFailure
from replan.tools.remote.grpc_forms import (
    CANCEL,
    EXECUTE,
    LIST,
    error_value,
    listing_value,
    pb,
    progress_value,
)
from replan.tools.remote.messages import (
    ERROR_METADATA,
    Execute,
    Listing,
    dumps,
    error_from_wire,
    listing_from_wire,
    loads,
)

OVERHEAD_BYTES = 64 * 1024
_STATE = grpc.ChannelConnectivity
_REFUSED = "the connection was refused (one with TLS is asked as grpcs://)"
_REFUSED_TLS = (
    "the connection was refused or could not be secured; a certificate that the system does not trust needs the file of whoever "
    "has signed it: RemoteSource(ca_file=…), or GRPC_DEFAULT_SSL_ROOTS_FILE_PATH in the environment"
)


class GrpcTransport:
    def __init__(self, endpoint: Endpoint, source: str) -> None:
        self._endpoint = endpoint
        self._source = source
        self._metadata = [(name.lower(), value) for name, value in endpoint.headers.items()]
        if endpoint.token:
            self._metadata.append(("authorization", f"Bearer {endpoint.token}"))
        self._options = [
            ("grpc.max_receive_message_length", endpoint.max_result_bytes + OVERHEAD_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_retries", 0),  # what may be sent again is decided in one place
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0 if endpoint.is_loopback else 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
        ]
        self._credentials = self._read_certificates() if endpoint.scheme == "grpcs" else None
        self._channel: grpc.aio.Channel | None = None
        self._requests: Counter[grpc.aio.Channel] = Counter()
        """How many are under way on each channel, those given up for a new one included."""

    def _read_certificates(self) -> grpc.ChannelCredentials:
        path = self._endpoint.ca_file
        try:
            return grpc.ssl_channel_credentials(read_bounded(path) if path else None)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    async def list_tools(self, known: str, wait_secs: float) -> Listing | None:
        async with self._request("ListTools") as channel:
            ask = channel.unary_unary(
                LIST,
                request_serializer=pb.ListToolsRequest.SerializeToString,
                response_deserializer=bytes,
            )
            answer = self._message(
                pb.ListToolsResponse,
                await ask(
                    pb.ListToolsRequest(known_revision=known, wait_secs=wait_secs), metadata=self._metadata
                ),
            )
        if answer.unchanged:
            return None
        try:
            return listing_from_wire(listing_value(answer), source=self._source)
        except ValueError as error:
            text = f"{self._endpoint.url} gave no list of tools as the protocol has it: {error}"
            raise TransportFailure(text, kind="output", happened="no") from error

    async def execute(self, request: Execute, report: Callable[[Progress], None] | None) -> Any:
        metadata = list(self._metadata)
        if request.traceparent:
            metadata.append(("traceparent", request.traceparent))
        message = pb.ExecuteToolRequest(
            tool=request.tool,
            parameters_json=dumps(request.parameters),
            key=request.key,
            key_store=request.key_store,
            task_id=request.task_id,
            step_id=request.step_id,
            attempt=request.attempt,
            call_id=request.call_id,
        )
        async with self._request(request.tool) as channel:
            make = channel.unary_stream(
                EXECUTE,
                request_serializer=pb.ExecuteToolRequest.SerializeToString,
                response_deserializer=bytes,
            )
            call = make(message, timeout=request.deadline_secs, metadata=metadata)
            try:
                async for data in call:
                    event = self._message(pb.ExecuteToolEvent, data)
                    match event.WhichOneof("event"):
                        case "progress":
                            if report is not None:
                                report(progress_value(event.progress))
                        case "error":
                            raise error_from_wire(error_value(event.error))
                        case "output_json":
                            output = event.output_json
                            return await taken(partial(self._output, output, request.tool), len(output))
                        case _:
                            text = f"{self._endpoint.url} sent an event that is neither progress, output nor error"
                            raise ToolCallError(text, kind="output", happened="unknown")
            finally:
                call.cancel()
        text = f"the answer of {self._endpoint.url} ended before the outcome of {request.tool!r}"
        raise TransportFailure(text, kind="connection_lost", happened="unknown")

    async def cancel(self, call_id: str) -> None:
        async with self._request("CancelTool") as channel:
            ask = channel.unary_unary(
                CANCEL,
                request_serializer=pb.CancelToolRequest.SerializeToString,
                response_deserializer=bytes,
            )
            await ask(pb.CancelToolRequest(call_id=call_id), metadata=self._metadata)

    async def aclose(self) -> None:
        channels = {*self._requests, *([self._channel] if self._channel is not None else ())}
        self._channel = None
        for channel in channels:
            await channel.close(None)

    @contextlib.asynccontextmanager
    async def _request(self, what: str) -> AsyncIterator[grpc.aio.Channel]:
        """A channel for one request, whose failures are raised as `ToolCallError`."""
        channel = await self._connected()
        self._requests[channel] += 1
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            raise self._failure(error, what) from error
        except grpc.aio.UsageError as error:  # closed since it was connected
            raise self._refused("the channel was closed") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            text = f"the connection to {self._endpoint.url} was closed"
            raise TransportFailure(text, kind="connection_lost", happened="unknown") from error
        finally:
            self._requests[channel] -= 1
            if not self._requests[channel]:
                del self._requests[channel]
                if channel is not self._channel:
                    await channel.close(None)

    async def _connected(self) -> grpc.aio.Channel:
        """The channel once it is connected: until then nothing was sent, which only this tells for sure."""
        if self._channel is not None and self._channel.get_state() is _STATE.READY:
            return self._channel
        if self._channel is not None and self._channel.get_state() in (
            _STATE.TRANSIENT_FAILURE,
            _STATE.SHUTDOWN,
        ):
            # A new one tries at once. The old one may have calls, of a server that stops and lets them end.
            channel, self._channel = self._channel, None
            if not self._requests[channel]:
                await channel.close(None)
        channel = self._channel = self._channel or self._open()
        try:
            async with asyncio.timeout(self._endpoint.connect_timeout_secs):
                while (state := channel.get_state(try_to_connect=True)) is not _STATE.READY:
                    if state in (_STATE.TRANSIENT_FAILURE, _STATE.SHUTDOWN):
                        raise self._refused(_REFUSED_TLS if self._credentials is not None else _REFUSED)
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            raise self._refused(
                f"no connection within {in_digits(self._endpoint.connect_timeout_secs)} s"
            ) from None
        except grpc.aio.UsageError as error:  # closed by another call meanwhile
            raise self._refused("the channel was closed") from error
        return channel

    def _open(self) -> grpc.aio.Channel:
        target = urlsplit(self._endpoint.url).netloc
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=self._options)
        return grpc.aio.secure_channel(target, self._credentials, options=self._options)

    def _refused(self, reason: str) -> TransportFailure:
        text = f"cannot connect to {self._endpoint.url}: {reason}"
        return TransportFailure(text, kind="refused", happened="no")

    def _message(self, kind: Any, data: bytes) -> Any:
        """Read here, as the library gives nothing at all for bytes that are no message, and goes on."""
        try:
            return kind.FromString(data)
        except DecodeError as error:
            text = f"{self._endpoint.url} answered with what is not a message of the protocol"
            raise ToolCallError(text, kind="output", happened="unknown") from error

    def _output(self, data: bytes, tool: str) -> Any:
        if len(data) > self._endpoint.max_result_bytes:
            raise too_large(tool, self._endpoint.max_result_bytes)
        try:
            return loads(data)
        except ValueError as error:
            text = f"{self._endpoint.url} answered for {tool!r} with what is not JSON: {error}"
            raise ToolCallError(text, kind="output", happened="unknown") from error

    def _failure(self, error: grpc.aio.AioRpcError, what: str) -> ToolCallError:
        """What a gRPC status means: the service's own word, or that of the library or a proxy."""
        said = _said(error)
        url, code, words = self._endpoint.url, error.code(), self._endpoint.words(error.details() or "", 300)
        if said is not None:
            found = error_from_wire(said)
            return TransportFailure(
                str(found),
                kind=found.kind,
                happened=found.happened,
                status=found.status,
                retry_after=found.retry_after,
            )
        codes = grpc.StatusCode
        if code is codes.RESOURCE_EXHAUSTED and "larger than max" in words:
            return too_large(what, self._endpoint.max_result_bytes)
        if code is codes.DEADLINE_EXCEEDED:
            return ToolCallError(f"{url}: no answer of {what!r} in time", kind="timeout", happened="unknown")
        if code in (codes.UNAVAILABLE, codes.CANCELLED, codes.UNKNOWN):
            text = f"the connection to {url} was lost: {words}"
            return TransportFailure(text, kind="connection_lost", happened="unknown")
        # Handlers end a call with whatever status they like, that of somebody whom they have asked themselves among them: only our
        # own detail says that a call was not admitted.
        if code is codes.UNIMPLEMENTED:
            text = f"{url} offers no {what} of replan.tools.v1: {words}"
            return TransportFailure(text, kind="http", happened="unknown", status=404)
        if code is codes.UNAUTHENTICATED:
            return TransportFailure(f"{url}: {words}", kind="http", happened="unknown", status=401)
        if code is codes.INTERNAL and "deserializing" in words:
            text = f"{url} answered for {what!r} with what is not a message of the protocol"
            return ToolCallError(text, kind="output", happened="unknown")
        return TransportFailure(
            f"{url} answered {code.name}: {words}", kind="http", happened="unknown", status=500
        )


def _said(error: grpc.aio.AioRpcError) -> JsonObject | None:
    metadata: Any = error.trailing_metadata() or ()
    for name, value in metadata:
        if name == ERROR_METADATA:
            with contextlib.suppress(ValueError):
                found = loads(value)
                return found if isinstance(found, dict) else None
    return None
