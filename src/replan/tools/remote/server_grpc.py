"""The tool service over gRPC."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from replan.errors import ToolCallError
from replan.ports import Progress
from replan.tools.remote.grpc_forms import error_message, listing_message, pb, progress_event
from replan.tools.remote.messages import (
    ERROR_METADATA,
    GRPC_HEALTH,
    GRPC_SERVICE,
    dumps,
    error_to_wire,
    execute_from_wire,
    loads,
    wrong_request,
)
from replan.tools.remote.service import MOST_WAITING, Service

OVERHEAD_BYTES = 64 * 1024
_MOST_WORDS = 3000
"""Of a message in metadata, which clients refuse beyond 8 KiB."""
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""`HealthCheckResponse` of grpc.health.v1 : field 1, an enum."""


def make_server(service: Service, token: str | None = None) -> grpc.aio.Server:
    """A server, not started and without a port, that offers `service` and the standard health check."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", service.max_request_bytes + OVERHEAD_BYTES),
            ("grpc.max_send_message_length", service.max_result_bytes + OVERHEAD_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
    )
    tools = _Tools(service, token)
    server.add_generic_rpc_handlers((tools.handlers(), _health(service)))
    return server


class _Tools:
    def __init__(self, service: Service, token: str | None) -> None:
        self._service = service
        self._token = f"Bearer {token}".encode() if token else None

    def handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        return grpc.method_handlers_generic_handler(
            GRPC_SERVICE,
            {
                "ListTools": _unary(self._list, pb.ListToolsRequest),
                "CancelTool": _unary(self._cancel, pb.CancelToolRequest),
                "ExecuteTool": grpc.unary_stream_rpc_method_handler(
                    self._execute,
                    request_deserializer=pb.ExecuteToolRequest.FromString,
                    response_serializer=_serialized,
                ),
            },
        )

    async def _list(self, request: Any, context: Any) -> Any:
        await self._check(context)
        left = context.time_remaining()
        wait = request.wait_secs if left is None else min(request.wait_secs, left - 1.0)
        listing = await self._service.listing(request.known_revision, wait)
        return listing_message(listing, request.known_revision)

    async def _cancel(self, request: Any, context: Any) -> Any:
        await self._check(context)
        self._service.cancel(request.call_id)
        return pb.CancelToolResponse()

    async def _execute(self, message: Any, context: Any) -> AsyncIterator[Any]:
        metadata = await self._check(context)
        progress: asyncio.Queue[Progress | None] = asyncio.Queue()

        def report(told: Progress) -> None:
            if progress.qsize() < MOST_WAITING:
                progress.put_nowait(told)

        try:
            waiter = self._service.execute(_request(message, context, metadata), report)
        except ToolCallError as error:
            await _abort(context, error)
            return
        answer = asyncio.ensure_future(waiter.answer())
        answer.add_done_callback(lambda _: progress.put_nowait(None))
        try:
            while (told := await progress.get()) is not None:
                yield progress_event(told)
            found = answer.result()
            if found.output is not None:
                yield pb.ExecuteToolEvent(output_json=found.output)
            else:
                yield pb.ExecuteToolEvent(error=error_message(found.error or {}))
        finally:
            answer.cancel()

    async def _check(self, context: Any) -> dict[str, Any]:
        metadata = dict(context.invocation_metadata() or ())
        given = str(metadata.get("authorization", "")).encode()
        if self._token is not None and not hmac.compare_digest(given, self._token):
            text = "the tool server asks for a bearer token, and the one that it got is missing or wrong"
            await _abort(context, ToolCallError(text, kind="http", happened="no", status=401))
        return metadata


def _request(message: Any, context: Any, metadata: dict[str, Any]) -> Any:
    try:
        parameters = loads(message.parameters_json or b"{}")
    except ValueError as error:
        raise wrong_request(f"parameters_json is not JSON: {error}") from None
    left = context.time_remaining()
    names = ("tool", "key", "key_store", "task_id", "step_id", "call_id")
    return execute_from_wire(
        {
            **{name: getattr(message, name) for name in names},
            "parameters": parameters,
            "attempt": max(1, message.attempt),
            "deadline_secs": None if left is None or left > 1e8 else max(left, 0.001),
        },
        str(metadata.get("traceparent", "")),
    )


async def _abort(context: Any, error: ToolCallError) -> None:
    wire = error_to_wire(error)
    wire["message"] = wire["message"][:_MOST_WORDS]
    code = _CODES.get(error.status or 400, grpc.StatusCode.INVALID_ARGUMENT)
    words = wire["message"].encode("utf-8", "replace").decode()
    await context.abort(code, words[:500], trailing_metadata=((ERROR_METADATA, dumps(wire)),))


def _unary(function: Any, request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        function, request_deserializer=request.FromString, response_serializer=_serialized
    )


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _health(service: Service) -> grpc.GenericRpcHandler[Any, Any]:
    """`Check` of grpc.health.v1, whose messages are one field each."""

    async def check(request: bytes, context: Any) -> bytes:
        asked = request[2:].decode("utf-8", "replace")
        if asked not in ("", GRPC_SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {asked!r}")
        return _NOT_SERVING if service.draining else _SERVING

    return grpc.method_handlers_generic_handler(
        GRPC_HEALTH, {"Check": grpc.unary_unary_rpc_method_handler(check)}
    )
