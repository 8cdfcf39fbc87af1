"""A call that a service has taken, and that ends with a refusal: nobody can tell what it has done."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import mcp_types as types
import pytest
from faults_mcp_http import Lab
from mcp import MCPError

from replan.core.failures.faults import classify
from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools.remote import RemoteSource
from replan.tools.remote.grpc_forms import pb
from replan.tools.remote.messages import ERROR_METADATA, GRPC_SERVICE, PROTOCOL, dumps

pytestmark = pytest.mark.anyio
ONCE = ToolSpec(id="pay", effect="once")
REFUSED = {"kind": "http", "message": "no token", "happened": "no", "status": 401}


@contextlib.asynccontextmanager
async def ending_with(code: grpc.StatusCode, *, told: bool, detail: bool) -> AsyncIterator[RemoteSource]:
    """A service over gRPC whose tool `pay` ends with a status: after it has told of its progress, and with our detail, or not."""

    async def listed(request: bytes, context: Any) -> bytes:
        one = pb.Tool(id="pay", effect="once", parameters_json=b'{"type":"object","properties":{}}')
        return bytes(pb.ListToolsResponse(protocol=PROTOCOL, revision="1", tools=[one]).SerializeToString())

    async def execute(request: bytes, context: Any) -> AsyncIterator[bytes]:
        if told:
            event = pb.ExecuteToolEvent(progress=pb.Progress(message="booked"))
            yield bytes(event.SerializeToString())
        more = ((ERROR_METADATA, dumps(REFUSED)),) if detail else ()
        await context.abort(code, "downstream: token expired", more)

    server = grpc.aio.server()
    handlers = {
        "ListTools": grpc.unary_unary_rpc_method_handler(listed),
        "ExecuteTool": grpc.unary_stream_rpc_method_handler(execute),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GRPC_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    source = RemoteSource([f"grpc://127.0.0.1:{port}"], max_retries=0)
    try:
        yield source
    finally:
        await source.aclose()
        await server.stop(0)


async def _error(source: Any, call: ToolCall) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        await source.call(call)
    return caught.value


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
async def test_no_status_over_grpc_says_by_itself_that_nothing_happened(
    code: grpc.StatusCode, told: bool
) -> None:
    async with ending_with(code, told=told, detail=False) as source:
        error = await _error(source, ToolCall("pay", {}, "key"))
    assert "token expired" in str(error)
    assert classify(error, ONCE).happened == "unknown"


async def test_the_detail_of_the_protocol_says_so() -> None:
    async with ending_with(grpc.StatusCode.UNAUTHENTICATED, told=False, detail=True) as source:
        error = await _error(source, ToolCall("pay", {}, "key"))
    assert (error.status, classify(error, ONCE).happened) == (401, "no")


@pytest.mark.parametrize("code", [types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST])
@pytest.mark.parametrize(("told", "happened"), [(False, "no"), (True, "unknown")])
async def test_an_mcp_server_that_has_told_of_its_progress_refuses_the_call_no_more(
    code: int, told: bool, happened: str
) -> None:
    lab = Lab()
    seen: list[Progress] = []

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        if told:
            await ctx.session.report_progress(1, 2, "booked")
        raise MCPError(code=code, message="the backend knows no such thing")

    lab.tools.call = call  # type: ignore[method-assign]
    async with lab.open() as source:
        await source.tools()
        error = await _error(source, ToolCall("add", {"a": 1, "b": 2}, "key", report=seen.append))
        await source.aclose()
    assert [each.message for each in seen] == (["booked"] if told else [])
    assert classify(error, ONCE).happened == happened
