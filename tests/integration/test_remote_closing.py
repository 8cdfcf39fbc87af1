"""Calls of a tool service whose client, channel or server is closed under them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from remote_process import Proxy

from replan.core.tools.rules import ToolRule, ToolRules
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools import Catalog, FunctionSource, tool
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running
from replan.tools.remote.server_grpc import make_server
from replan.tools.remote.service import Service

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("protocol", ["http", "grpc"])


class Slow:
    """A tool that has begun, and ends when it is told to."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    def source(self) -> FunctionSource:
        @tool(effect="once")
        async def slow() -> str:
            self.begun.set()
            await self.go_on.wait()
            return "done"

        return FunctionSource([slow])


@both
@pytest.mark.parametrize("max_retries", [0, 3])
async def test_a_source_closed_in_a_call_leaves_the_call_in_doubt(protocol: str, max_retries: int) -> None:
    slow = Slow()
    ports: dict[str, Any] = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    async with running([slow.source()], keys=Keys(), grace_secs=0.1, **ports) as serving:
        source = RemoteSource(serving.urls, max_retries=max_retries)
        call = asyncio.create_task(source.call(ToolCall("slow", {}, "key")))
        await slow.begun.wait()
        await source.aclose()
        (ended,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(ended, ToolCallError)
        assert (ended.kind, ended.happened) == ("connection_lost", "unknown")
        slow.go_on.set()
        assert await source.call(ToolCall("slow", {}, "key")) == "done"  # connected anew, to the same call
        await source.aclose()


@both
async def test_doubt_about_a_call_stays_when_its_next_attempt_is_cancelled_before_it_is_sent(
    protocol: str,
) -> None:
    slow = Slow()
    ports: dict[str, Any] = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    async with running([slow.source()], keys=Keys(), grace_secs=0.1, rejoin_secs=0.0, **ports) as serving:
        source = RemoteSource(serving.urls)
        call = ToolCall("slow", {}, "key", deadline_secs=0.3)
        with pytest.raises(ToolCallError) as caught:
            await source.call(call)
        assert caught.value.happened == "unknown"
    with pytest.raises(ToolCallError) as caught:  # nobody is there, and so nobody is asked for a second
        await source.call(ToolCall("slow", {}, "other"))
    assert caught.value.happened == "no"
    again = asyncio.create_task(source.call(call._replace(attempt=2, deadline_secs=None)))
    await asyncio.sleep(0)
    again.cancel()
    await asyncio.wait({again})
    assert source._doubt_about(call._replace(attempt=3)).why
    await source.aclose()


async def test_a_call_outlives_the_channel_that_a_new_one_gives_up() -> None:
    slow = Slow()
    service = Service([slow.source()], keys=Keys())
    await service.open()
    server = make_server(service)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    source = RemoteSource([f"grpc://127.0.0.1:{port}"], max_retries=0)
    try:
        first = asyncio.create_task(source.call(ToolCall("slow", {}, "one")))
        await slow.begun.wait()
        stopping = asyncio.create_task(
            server.stop(30.0)
        )  # takes no more connections, ends those calls it has
        await asyncio.sleep(0.2)
        for key in ("two", "three"):
            with pytest.raises(ToolCallError) as caught:
                await source.call(ToolCall("slow", {}, key))
            assert caught.value.happened == "no"
        slow.go_on.set()
        assert await first == "done"
        await stopping
    finally:
        await source.aclose()
        await service.aclose()


async def test_what_a_server_says_of_its_own_connections_is_no_refused_one() -> None:
    class Gateway:
        async def execute(self, request: bytes, context: Any) -> Any:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: db"
            )
            yield b""

    slow = Slow()
    service = Service([slow.source()], keys=Keys())
    await service.open()
    server = make_server(service)
    execute = grpc.unary_stream_rpc_method_handler(Gateway().execute)
    server.add_registered_method_handlers("replan.tools.v1.ToolService", {"ExecuteTool": execute})
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    source = RemoteSource([f"grpc://127.0.0.1:{port}"], max_retries=0)
    try:
        with pytest.raises(ToolCallError, match="failed to connect") as caught:
            await source.call(ToolCall("slow", {}, "key"))
        assert (caught.value.kind, caught.value.happened) == ("connection_lost", "unknown")
    finally:
        await source.aclose()
        await server.stop(0)
        await service.aclose()


@pytest.mark.parametrize("claimed", ["reads", "repeatable"])
async def test_a_tool_that_the_user_says_is_once_is_never_sent_again(claimed: Any, tmp_path: Path) -> None:
    made: list[int] = []

    @tool(effect=claimed)
    async def pay(amount: int) -> int:
        made.append(amount)
        proxy.cut()  # so that the answer gets lost
        return amount

    keys = Keys(tmp_path / "keys.db")
    async with running([FunctionSource([pay])], keys=keys, port=0) as serving:
        proxy = Proxy(int(serving.urls[0].rpartition(":")[2]))
        await proxy.start()
        rules = ToolRules(rules=(("pay", ToolRule(effect="once")),))
        catalog = Catalog([RemoteSource([f"http://127.0.0.1:{proxy.port}"])], rules=rules)
        await catalog.open()
        (spec,) = catalog.specs()
        assert (spec.effect, spec.honours_key) == ("once", False)
        with pytest.raises(ToolCallError) as caught:
            await catalog.call(ToolCall("pay", {"amount": 1}, "key"))
        assert (caught.value.kind, caught.value.happened) == ("connection_lost", "unknown")
        assert made == [1]
        await catalog.aclose()
        await proxy.stop()
