"""The rows of the fault table for a tool service: its server is a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fault_table import Broken
from remote_process import TOKEN, TOOLS, Process, process
from remote_wrong_servers import wrong_grpc, wrong_http

from replan.ports import ToolCall
from replan.tools.remote import RemoteSource

_Row = Callable[[], contextlib.AbstractAsyncContextManager[Broken]]
OTHER_TOOLS = TOOLS.replace("async def effect(name: str)", "async def effect(title: str)").replace(
    'note(name)\n    return {"done": 1}', 'note(title)\n    return {"done": 1}', 1
)


def faults(protocol: str) -> dict[str, _Row]:
    return {
        "killed before": _killed_before(protocol),
        "killed in": _killed_in(protocol),
        "killed after": _killed_after(protocol),
        "hang": _hang(protocol),
        "slow list": _slow_list(protocol),
        "huge result": _huge_result(protocol),
        "invalid JSON": _invalid_json(protocol),
        "changed schema": _changed_schema(protocol),
        "unauthorized": _unauthorized(protocol),
        "refused": _refused(protocol),
    }


def _source(url: str, **more: Any) -> RemoteSource:
    return RemoteSource([url], **{"token": TOKEN, "name": "remote", **more})


@contextlib.asynccontextmanager
async def _server(protocol: str) -> AsyncIterator[Process]:
    with tempfile.TemporaryDirectory() as folder:
        async with process(Path(folder), protocol) as server:
            yield server


def _killed_before(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            yield Broken(
                _source(server.url),
                "effect",
                {"name": "trace"},
                frozenset({"refused", "unavailable"}),
                "no",
                prepare=server.kill,
                mend=server.start,
                works=ToolCall("effect", {"name": "trace"}, "another key"),
            )
            assert server.traces("trace") == 1

    return made


def _killed_in(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            yield Broken(
                _source(server.url),
                "leave",
                {"name": "trace"},
                frozenset({"connection_lost"}),
                "unknown",
                mend=server.start,
                works=ToolCall("effect", {"name": "other"}, "another key"),
            )
            assert server.traces("trace") == 1, "the effect was repeated"

    return made


def _killed_after(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            source = _source(server.url)
            call = ToolCall("effect", {"name": "trace"}, "the key")
            await source.tools()
            assert await source.call(call) == {"done": 1}

            async def again() -> None:
                await server.kill()
                await server.start()

            yield Broken(source, "effect", {"name": "other"}, mend=again, works=call)
            assert server.traces("trace") == 1, "the answer that was kept was not given again"

    return made


def _hang(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            yield Broken(
                _source(server.url), "hang", {"name": "trace"}, frozenset({"timeout", "in_doubt"}), "unknown"
            )
            await server.saw("trace-cancelled")
            assert server.traces("trace") == 1

    return made


def _slow_list(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            os.kill(server.pid, signal.SIGSTOP)

            async def go_on() -> None:
                os.kill(server.pid, signal.SIGCONT)

            source = _source(server.url, timeout_secs=1.0, connect_timeout_secs=1.0)
            works = ToolCall("echo", {"value": 1}, "key", deadline_secs=20.0)
            yield Broken(source, "echo", lists=False, mend=go_on, works=works)

    return made


def _huge_result(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            source = _source(server.url, max_result_bytes=1_000_000)
            yield Broken(source, "large", {"size": 3_000_000}, frozenset({"output"}), "unknown")

    return made


def _invalid_json(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        wrong = wrong_http if protocol == "http" else wrong_grpc
        async with wrong() as url:
            yield Broken(_source(url), "garbage", {}, frozenset({"output"}), "unknown")

    return made


def _changed_schema(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:

            async def change() -> None:
                await server.kill()
                server.tools.write_text(OTHER_TOOLS, encoding="utf-8")
                await server.start()

            yield Broken(
                _source(server.url),
                "effect",
                {"name": "trace"},
                frozenset({"parameter"}),
                "no",
                prepare=change,
            )

    return made


def _unauthorized(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:

            async def restart(token: str) -> None:
                await server.kill()
                server.token = token
                await server.start()

            yield Broken(
                _source(server.url),
                "effect",
                {"name": "trace"},
                frozenset({"http"}),
                "no",
                prepare=lambda: restart("another-token"),
                mend=lambda: restart(TOKEN),
                works=ToolCall("effect", {"name": "trace"}, "another key"),
            )

    return made


def _refused(protocol: str) -> _Row:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        async with _server(protocol) as server:
            await server.kill()
            works = ToolCall("effect", {"name": "trace"}, "key")
            yield Broken(_source(server.url), "effect", lists=False, mend=server.start, works=works)

    return made
