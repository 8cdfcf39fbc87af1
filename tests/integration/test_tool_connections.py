"""Sources over HTTP use their connections again, close them whatever is cancelled, and go through proxies."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from remote_process import Proxy
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from live_server import serving
from mcp_http_server import Tools, app_of
from mcp_http_server import serving as serving_mcp
from replan.connections import certificates
from replan.errors import ReplanError
from replan.llm.provider import open_model
from replan.ports import ModelRequest, ToolCall, ToolSource, Turn
from replan.tools import FunctionSource
from replan.tools.bounds import IDLE_SECS
from replan.tools.mcp import HttpServer, McpSource
from replan.tools.openapi import OpenApiSource
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("young_garbage")]
AT_ONCE = 30
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
ADD = {
    "operationId": "add",
    "requestBody": {"required": True, "content": {"application/json": {"schema": NUMBERS}}},
    "responses": {"200": {"description": "the sum", "content": {"application/json": {"schema": {}}}}},
}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "add", "version": "1"}, "paths": {"/add": {"post": ADD}}}


@contextlib.asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A relay that counts the connections to a server, and the address to call in the server's place."""
    proxy = Proxy(urlsplit(url).port or 0)
    await proxy.start()
    try:
        yield proxy, f"http://127.0.0.1:{proxy.port}"
    finally:
        await proxy.stop()


@contextlib.asynccontextmanager
async def remote() -> AsyncIterator[tuple[Proxy, ToolSource]]:
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    async with (
        running([FunctionSource([add])], keys=Keys()) as server,
        relayed(server.urls[0]) as (proxy, url),
    ):
        yield proxy, RemoteSource([url])


@contextlib.asynccontextmanager
async def mcp() -> AsyncIterator[tuple[Proxy, ToolSource]]:
    tools = Tools()
    with serving_mcp(lambda: app_of(tools)) as server:
        async with relayed(server.url) as (proxy, url):
            yield proxy, McpSource(HttpServer(f"{url}/mcp"), name="http")


@contextlib.asynccontextmanager
async def openapi() -> AsyncIterator[tuple[Proxy, ToolSource]]:
    async def add(request: Request) -> JSONResponse:
        given = await request.json()
        return JSONResponse({"sum": given["a"] + given["b"]})

    with serving(Starlette(routes=[Route("/add", add, methods=["POST"])])) as server:
        async with relayed(server) as (proxy, url):
            yield proxy, OpenApiSource(DOCUMENT, server=url)


@pytest.mark.parametrize("opened", [remote, mcp, openapi])
async def test_a_connection_serves_call_after_call(opened: Any) -> None:
    async with opened() as (proxy, source):
        try:
            await source.tools()

            async def add(n: int) -> None:
                assert await source.call(ToolCall("add", {"a": n, "b": 1}, f"key-{n}")) == {"sum": n + 1}

            await add(0)
            before = proxy.connections
            for n in range(1, 10):
                await add(n)
            assert proxy.connections - before <= 1  # a slow machine may let one grow old
            for go in range(1, 4):
                await asyncio.gather(*(add(1000 * go + n) for n in range(AT_ONCE)))
            assert proxy.connections - before <= AT_ONCE + 3
        finally:
            await source.aclose()


@pytest.mark.parametrize("opened", [remote, mcp, openapi])
async def test_a_cancellation_leaves_no_connection_unclosed(opened: Any) -> None:
    """At whichever turn of the event loop it comes, while connections that were idle for too long are closed."""
    async with opened() as (_, source):
        try:
            await source.tools()
            for turns in (2, 7):
                calls = (ToolCall("add", {"a": n, "b": 1}, f"key-{turns}-{n}") for n in range(AT_ONCE))
                await asyncio.gather(*map(source.call, calls))
                await asyncio.sleep(IDLE_SECS + 0.1)  # what is waited for is the passing of time itself
                late = asyncio.create_task(source.call(ToolCall("add", {"a": 0, "b": 1}, f"late-{turns}")))
                for _ in range(turns):
                    await asyncio.sleep(0)
                late.cancel()
                await asyncio.wait({late})
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    gc.collect()
                assert [str(one.message) for one in told] == []
        finally:
            await source.aclose()


@pytest.mark.parametrize("kind", ["remote", "mcp", "model"])
async def test_the_proxy_of_the_environment_is_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        if kind == "model":
            model = open_model("m", endpoint="http://tools.test/v1", max_retries=0)
            request = ModelRequest(
                role="planning",
                schema_name="execution_plan",
                json_schema={"type": "object"},
                instructions="",
                turns=(Turn(role="user", text="hello"),),
            )
            with pytest.raises(ReplanError):
                await model.ask(request)
            await model.aclose()
        else:
            urls = {"remote": lambda: RemoteSource(["http://tools.test"]), "mcp": _far_mcp}
            source = urls[kind]()
            with pytest.raises(ReplanError):
                await source.tools()
            await source.aclose()
    assert heads
    assert all(" http://tools.test/" in head for head in heads)


def _far_mcp() -> McpSource:
    return McpSource(HttpServer("http://tools.test/mcp"), name="far")


def test_certificates_are_read_once_and_anew_where_the_environment_names_others_or_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    of_system = certificates()
    assert certificates() is of_system
    assert certificates(trust_env=False) is certificates(trust_env=False)
    some = [ssl.DER_cert_to_PEM_cert(one) for one in of_system.get_ca_certs(binary_form=True)[:2]]
    if len(some) < 2:
        pytest.skip("this system trusts nobody")
    (tmp_path / "own.pem").write_text(some[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    own = certificates()
    assert own is certificates()
    assert len(own.get_ca_certs()) == 1
    (tmp_path / "own.pem").write_text("".join(some))
    os.utime(tmp_path / "own.pem", (1, 1))
    assert len(certificates().get_ca_certs()) == 2
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(OSError, match="No such file"):
        certificates()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert certificates() is of_system
