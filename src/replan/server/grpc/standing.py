"""What needs no key over gRPC: how the service stands, and what it offers (reflection). Bounded, so that it takes no place of other calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from replan.server.grpc.door import first_of
from replan.server.grpc.messages import SERVICE
from replan.server.grpc.statuses import status_of

MOST_STREAMS = 100
"""At once, of all that have no key."""
_MESSAGE_SECS = 1.0
"""So long a question may take to come: it has a few bytes."""
Handler = Callable[..., Any]


class Standing:
    """The calls of both services."""

    def __init__(self) -> None:
        self.health = HealthServicer()
        self._reflection = ReflectionServicer((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME))
        self._streams = 0

    def handlers(self) -> list[grpc.GenericRpcHandler[Any, Any]]:
        asks, tells = (
            health_pb2.HealthCheckRequest.FromString,
            health_pb2.HealthCheckResponse.SerializeToString,
        )
        of_health = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, asks, tells),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, asks, tells),
        }
        of_reflection = {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                self._reflect,
                reflection_pb2.ServerReflectionRequest.FromString,
                reflection_pb2.ServerReflectionResponse.SerializeToString,
            )
        }
        return [
            grpc.method_handlers_generic_handler(health.SERVICE_NAME, of_health),
            grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, of_reflection),
        ]

    async def _check(self, requests: AsyncIterator[Any], context: Any) -> Any:
        return await self.health.Check(await _first(requests, context), context)

    async def _watch(self, requests: AsyncIterator[Any], context: Any) -> None:
        await self._take_place(context)
        await self.health.Watch(await _first(requests, context), context)

    async def _reflect(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        await self._take_place(context)
        async for told in self._reflection.ServerReflectionInfo(requests, context):
            yield told

    async def _take_place(self, context: Any) -> None:
        if self._streams >= MOST_STREAMS:
            words = f"{MOST_STREAMS} streams of those who need no key are open here, and no more may be"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        self._streams += 1
        context.add_done_callback(self._left)

    def _left(self, _: Any) -> None:
        self._streams -= 1


async def _first(requests: AsyncIterator[Any], context: Any) -> Any:
    try:
        return await first_of(requests, _MESSAGE_SECS, "a message")
    except Exception as error:  # noqa: BLE001  (told)
        found = status_of(error)
        await context.abort(found.code, found.message, found.trailing)
