"""What both sides know of the protocol: names, and faults as they travel."""

from __future__ import annotations

from typing import Any

import grpc

from replan.core.failures.asked_waits import seconds_asked
from replan.errors import ModelUnavailable
from replan.llm.faults import EndpointError
from replan.llm.grpc.proto.v1 import model_pb2

pb: Any = model_pb2
SERVICE = "replan.model.v1.ModelService"
HEALTH = "grpc.health.v1.Health"
FAULT_METADATA = "replan-model-fault-bin"
RETRY_METADATA = "retry-after"
MOST_BYTES = 32 * 1024 * 1024
"""Of one message: a prompt may have all that a context takes."""
_MOST_WORDS = 2_000

_CODE = grpc.StatusCode
_MEANS: dict[grpc.StatusCode, tuple[int, bool]] = {
    _CODE.UNAUTHENTICATED: (401, False),
    _CODE.PERMISSION_DENIED: (403, False),
    _CODE.NOT_FOUND: (404, False),
    _CODE.UNIMPLEMENTED: (404, False),
    _CODE.INVALID_ARGUMENT: (400, False),
    _CODE.OUT_OF_RANGE: (400, False),
    _CODE.FAILED_PRECONDITION: (400, False),
    _CODE.RESOURCE_EXHAUSTED: (429, True),
    _CODE.INTERNAL: (500, True),
    _CODE.UNKNOWN: (500, True),
    _CODE.DATA_LOSS: (500, True),
    _CODE.ABORTED: (503, True),
    _CODE.UNAVAILABLE: (503, True),
    _CODE.CANCELLED: (503, True),
    _CODE.DEADLINE_EXCEEDED: (504, True),
}
"""The HTTP status that says it closest, and whether another try may help."""


def fault_of(where: str, error: grpc.aio.AioRpcError) -> EndpointError:
    """What a status means: the service's own word, else that of the library or a proxy."""
    status, transient = _MEANS.get(error.code(), (500, True))
    words = (error.details() or "")[:500]
    said = dict(_trailing(error))
    told = pb.Fault()
    try:
        told.ParseFromString(bytes(said.get(FAULT_METADATA, b"")))
    except Exception:  # noqa: BLE001 - whatever the library makes of bytes that are no message
        told = pb.Fault()
    if told.message:
        words, transient, status = told.message, told.transient, told.status or status
    refused = error.code() in (_CODE.UNAUTHENTICATED, _CODE.PERMISSION_DENIED)
    if refused:
        return EndpointError(
            f"{where} refuses access ({error.code().name}): {words}; set [llm] api_key, or APP_LLM_API_KEY in the environment",
            status=401,
            setup=True,
        )
    return EndpointError(
        f"{where} answered {error.code().name}: {words}",
        transient=transient,
        status=None if status in (401, 403) else status,  # of the service's own provider: no key of ours
        retry_after=seconds_asked(
            told.retry_after if told.HasField("retry_after") else said.get(RETRY_METADATA)
        ),
        lost=error.code() is _CODE.UNAVAILABLE and not told.message,
    )


def code_and_fault(error: ModelUnavailable) -> tuple[grpc.StatusCode, Any]:
    """What a service answers where its model does not."""
    status = getattr(error, "status", None) or 0
    wait = getattr(error, "retry_after", None)
    told = pb.Fault(
        message=_plain(error)[:_MOST_WORDS], transient=error.transient, status=status, retry_after=wait
    )
    if error.transient:
        return (_CODE.RESOURCE_EXHAUSTED if status == 429 else _CODE.UNAVAILABLE), told
    return (_CODE.NOT_FOUND if status == 404 else _CODE.FAILED_PRECONDITION), told


def _plain(error: Exception) -> str:
    return str(error).encode("utf-8", "replace").decode()


def _trailing(error: grpc.aio.AioRpcError) -> list[tuple[str, Any]]:
    found: Any = error.trailing_metadata() or ()
    return [(str(name), value) for name, value in found]
