"""A call with an effect takes place once: connections cut, servers killed, restarted, busy and stopping."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest
from remote_process import TOKEN, Proxy, process

from replan import Replan
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools import FunctionSource, tool
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("protocol", ["http", "grpc"])]


def _source(*urls: str, **more: Any) -> RemoteSource:
    return RemoteSource(list(urls), **{"token": TOKEN, "name": "remote", **more})


def _ports(protocol: str) -> dict[str, Any]:
    return {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}


async def _until_refused(source: RemoteSource) -> None:
    while True:
        await source.call(ToolCall("echo", {"value": 1}, "other"))


async def test_a_connection_cut_in_the_middle_repeats_nothing(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        await proxy.start()
        source = _source(f"{protocol}://127.0.0.1:{proxy.port}")
        try:
            await source.tools()
            call = asyncio.create_task(source.call(ToolCall("slow_effect", {"name": "trace"}, "key")))
            await server.saw("trace")
            proxy.cut()
            (tmp_path / "go").touch()
            assert await call == {"done": 1}
            assert server.traces("trace") == 1
            assert proxy.connections > 1
        finally:
            await source.aclose()
            await proxy.stop()


async def test_a_whole_task_gets_through_a_cut_connection_with_one_effect(
    protocol: str, tmp_path: Path
) -> None:
    async with process(tmp_path, protocol) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        await proxy.start()
        # Not a single retry of its own: it is Replan that makes the call again, as the key is honoured.
        source = _source(f"{protocol}://127.0.0.1:{proxy.port}", max_retries=0)
        plan = {"steps": [{"step_id": "one", "tool": "slow_effect", "parameters": {"name": "trace"}}]}
        async with Replan(tools=[source], db=tmp_path / "replan.db") as replan:
            task = await replan.submit("one effect", plan=plan, evaluation="steps")
            await server.saw("trace")
            proxy.cut()
            (tmp_path / "go").touch()
            result = await replan.wait(task)
        assert result.status == "succeeded"
        assert server.traces("trace") == 1
        await proxy.stop()


async def test_a_server_killed_in_a_call_does_not_make_it_again(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        source = _source(server.url, max_retries=0)
        try:
            await source.tools()
            calls = [
                asyncio.create_task(source.call(ToolCall(name, {"name": name}, f"key of {name}")))
                for name in ("slow_effect", "slow_repeatable")
            ]
            for name in ("slow_effect", "slow_repeatable"):
                await server.saw(name)
            await server.kill()
            for lost in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(lost, ToolCallError)
                assert (lost.kind, lost.happened) == ("connection_lost", "unknown")
            await server.start()
            (tmp_path / "go").touch()
            with pytest.raises(ToolCallError, match="nobody knows how it ended") as caught:
                await source.call(
                    ToolCall("slow_effect", {"name": "slow_effect"}, "key of slow_effect", attempt=2)
                )
            assert (caught.value.kind, caught.value.happened) == ("in_doubt", "unknown")
            again = ToolCall(
                "slow_repeatable", {"name": "slow_repeatable"}, "key of slow_repeatable", attempt=2
            )
            assert await source.call(again) == {"done": 1}
            assert server.traces("slow_effect") == 1
            assert server.traces("slow_repeatable") == 2
        finally:
            await source.aclose()


async def test_an_answer_outlives_a_killed_server(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        source = _source(server.url)
        try:
            call = ToolCall("effect", {"name": "trace"}, "key")
            assert await source.call(call) == {"done": 1}
            await server.kill()
            await server.start()
            assert await source.call(call._replace(attempt=2)) == {"done": 1}
            assert server.traces("trace") == 1
        finally:
            await source.aclose()


async def test_keys_in_memory_are_not_relied_on_after_a_restart(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol, "--keys", "memory") as server:
        source = _source(server.url, max_retries=2)
        try:
            assert not any(spec.honours_key for spec in await source.tools())
            call = asyncio.create_task(source.call(ToolCall("slow_effect", {"name": "trace"}, "key")))
            await server.saw("trace")
            await server.kill()
            await server.start()
            (tmp_path / "go").touch()
            with pytest.raises(ToolCallError) as caught:
                await call
            assert caught.value.happened == "unknown"
            assert server.traces("trace") == 1
            # A new call is not held up by what the server has forgotten.
            assert await source.call(ToolCall("effect", {"name": "other"}, "other key")) == {"done": 1}
        finally:
            await source.aclose()


async def test_cancelling_reaches_the_server_unless_others_wait(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        first, second = _source(server.url), _source(server.url)
        try:
            call = ToolCall("hang", {"name": "trace"}, "key")
            one = asyncio.create_task(first.call(call))
            await server.saw("trace")
            other = asyncio.create_task(second.call(call._replace(deadline_secs=1.0)))
            await asyncio.wait({other}, timeout=0.5)
            one.cancel()
            await asyncio.wait({one})
            assert one.cancelled()
            await first.aclose()  # by now the server has been told
            assert server.traces("trace-cancelled") == 0
            with pytest.raises(ToolCallError) as caught:
                await other
            assert (caught.value.kind, caught.value.happened) == ("timeout", "unknown")
            await server.saw("trace-cancelled")
            assert server.traces("trace") == 1
        finally:
            await first.aclose()
            await second.aclose()


async def test_sigterm_lets_calls_end_and_turns_new_ones_away(protocol: str, tmp_path: Path) -> None:
    async with process(tmp_path, protocol) as server:
        source, later = _source(server.url, max_retries=0), _source(server.url, max_retries=0)
        try:
            await later.tools()
            call = asyncio.create_task(source.call(ToolCall("slow_effect", {"name": "trace"}, "key")))
            await server.saw("trace")
            ended = asyncio.create_task(server.end(signal.SIGTERM))
            with pytest.raises(ToolCallError) as caught:
                await _until_refused(later)
            assert (caught.value.kind, caught.value.status, caught.value.happened) == (
                "unavailable",
                503,
                "no",
            )
            if protocol == "http":
                async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
                    assert (await client.get("/healthz")).status_code == 503
                    headers = {"Authorization": f"Bearer {TOKEN}"}
                    turned = await client.post("/v1/execute", json={"tool": "echo"}, headers=headers)
                    assert (turned.status_code, turned.json()["error"]["happened"]) == (503, "no")
                    assert int(turned.headers["retry-after"]) >= 1
            (tmp_path / "go").touch()
            assert await call == {"done": 1}
            assert await ended == 0
        finally:
            await source.aclose()
            await later.aclose()


async def test_a_call_that_nobody_comes_back_for_is_given_up(protocol: str, tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    @tool
    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with running(
        [FunctionSource([hang])], keys=Keys(), rejoin_secs=0.05, **_ports(protocol)
    ) as serving:
        proxy = Proxy(int(serving.urls[0].rpartition(":")[2]))
        await proxy.start()
        source = RemoteSource([f"{protocol}://127.0.0.1:{proxy.port}"], max_retries=0)
        call = asyncio.create_task(source.call(ToolCall("hang", {}, "key")))
        await begun.wait()
        await proxy.stop()
        with pytest.raises(ToolCallError) as caught:
            await call
        assert (caught.value.kind, caught.value.happened) == ("connection_lost", "unknown")
        async with asyncio.timeout(10):
            await cancelled.wait()
        await source.aclose()


async def test_a_file_of_keys_has_one_server(protocol: str, tmp_path: Path) -> None:
    def give() -> int:
        return 1

    path = tmp_path / "keys.db"
    async with running([FunctionSource([give])], keys=Keys(path), **_ports(protocol)):
        with pytest.raises(InputError, match="another server uses it"):
            async with running([FunctionSource([give])], keys=Keys(path), **_ports(protocol)):
                pass
    path.write_text("no database, but text that is long enough to be read as one" * 20)
    with pytest.raises(InputError, match="it has to be a file that a tool server has made"):
        async with running([FunctionSource([give])], keys=Keys(path), **_ports(protocol)):
            pass
    with sqlite3.connect(tmp_path / "newer.db") as database:
        database.execute("pragma user_version=99")
    database.close()
    with pytest.raises(InputError, match="of version 99"):
        async with running([FunctionSource([give])], keys=Keys(tmp_path / "newer.db"), **_ports(protocol)):
            pass


async def test_a_server_that_is_stopped_while_it_starts_lets_go_of_its_file_of_keys(
    protocol: str, tmp_path: Path
) -> None:
    listing = asyncio.Event()

    class Hanging(FunctionSource):
        async def tools(self) -> Any:
            listing.set()
            await asyncio.Event().wait()

    def give() -> int:
        return 1

    async def start(source: FunctionSource) -> int:
        async with running([source], keys=Keys(tmp_path / "keys.db"), **_ports(protocol)) as serving:
            return serving.tools

    stopped = asyncio.create_task(start(Hanging([give])))
    await listing.wait()
    stopped.cancel()
    await asyncio.wait({stopped})
    assert stopped.cancelled()
    assert await start(FunctionSource([give])) == 1
