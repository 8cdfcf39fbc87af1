"""The service over gRPC on a port of its own, and a client of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from access_world import PLAIN, World, world
from google.rpc import error_details_pb2, status_pb2

from replan.config import Settings
from replan.core.types import JsonObject
from replan.server.grpc.messages import SERVICE, pb
from replan.server.grpc.serving import serving_grpc
from replan.server.shared import Authenticator, Shared, nobody_asked
from replan.server.streams.hub import Hub

METHODS = {one.name: one for one in pb.DESCRIPTOR.services_by_name["TaskService"].methods}


class Told(NamedTuple):
    """What a refused call has told."""

    code: str
    message: str
    reason: str
    fields: tuple[str, ...]
    retry_after: float | None


class Grpc(NamedTuple):
    there: World
    here: Shared
    channel: grpc.aio.Channel
    address: str

    def call(self, name: str, metadata: Any = None, timeout: float | None = None, **fields: Any) -> Any:
        """The call under way, with a message of these fields."""
        method = METHODS[name]
        sends = grpc_class(method.input_type)
        kind = "unary_stream" if method.server_streaming else "unary_unary"
        return getattr(self.channel, kind)(
            f"/{SERVICE}/{name}", sends.SerializeToString, grpc_class(method.output_type).FromString
        )(sends(**fields), metadata=metadata, timeout=timeout)

    def raw(self, name: str, data: bytes) -> Any:
        kind = "unary_stream" if METHODS[name].server_streaming else "unary_unary"
        return getattr(self.channel, kind)(f"/{SERVICE}/{name}")(data)

    def converse(self) -> Any:
        return self.channel.stream_stream(
            f"/{SERVICE}/Converse", pb.ConverseRequest.SerializeToString, pb.ConverseResponse.FromString
        )()

    async def refused(self, calling: Any) -> Told:
        """What the call is refused with."""
        try:
            if hasattr(calling, "__aiter__"):
                async for _ in calling:
                    pass
            else:
                await calling
        except grpc.aio.AioRpcError as error:
            return told(error)
        raise AssertionError("it was not refused")


def grpc_class(kind: Any) -> Any:
    return getattr(pb, kind.name)


def told(error: grpc.aio.AioRpcError) -> Told:
    reason, fields, retry_after = "", [], None
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = status_pb2.Status.FromString(value)
        assert (status.code, status.message) == (error.code().value[0], error.details())
        for detail in status.details:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                reason = info.reason
            elif detail.Unpack(bad):
                fields = [one.field for one in bad.field_violations]
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    return Told(error.code().name, error.details() or "", reason, tuple(fields), retry_after)


def task(wanted: JsonObject | None = None, text: str = "do it", **more: Any) -> Any:
    """A request for a task with this plan, judged by its steps."""
    options = pb.Options(plan_json=json.dumps(wanted or PLAIN), evaluation="steps")
    return pb.SubmitTaskRequest(task_description=text, options=options, **more)


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    *,
    settings: Settings | None = None,
    authenticate: Authenticator = nobody_asked,
    tools: dict[str, Any] | None = None,
    model: Any = None,
) -> AsyncIterator[Grpc]:
    async with world(folder / "log.db", tools, model, settings) as there:
        here = Shared(
            use_cases=there.cases,
            parts=there.replan.service.parts,
            settings=there.replan.settings,
            hub=Hub(there.replan.service),
            authenticate=authenticate,
        )
        async with serving_grpc(here, "127.0.0.1", 0) as port:
            address = f"127.0.0.1:{port}"
            async with grpc.aio.insecure_channel(address) as channel:
                yield Grpc(there, here, channel, address)
        await here.hub.aclose()
