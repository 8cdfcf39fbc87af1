"""OAuth against a real authorization server: client credentials, and a browser that comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_http_server import Serving
from mcp_oauth_server import Memory, person_app, robot_app
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.mcp import HttpServer, McpSource, OAuth
from replan.tools.mcp.oauth import Loopback
from replan.tools.mcp.token_file import default_token_file

pytestmark = pytest.mark.anyio
ADD = ToolCall("add", {"a": 1, "b": 2}, "key")


class Browser(Loopback):
    """The loopback, with a client that follows the redirects of the login in the place of a browser."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    async def show(self, url: str) -> None:
        self._came = asyncio.get_running_loop().create_future()
        self.opened.append(url)
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            reply = await client.get(url)
        assert reply.status_code == 200
        assert "logged in" in reply.text


@contextlib.asynccontextmanager
async def guarded(make: Callable[[Memory, int], Any]) -> AsyncIterator[tuple[Memory, Serving]]:
    memory = Memory()
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]
    server = Serving(lambda: make(memory, port), port)
    await asyncio.to_thread(server.start)
    try:
        yield memory, server
    finally:
        await asyncio.to_thread(server.stop)


def test_each_client_has_tokens_of_its_own() -> None:
    files = {default_token_file("https://h/mcp", who) for who in (None, "home", "work")}
    assert len(files) == 3


async def test_a_robot_gets_its_token_with_its_secret(tmp_path: Path) -> None:
    file = tmp_path / "state" / "tokens.json"
    async with guarded(robot_app) as (memory, server):
        oauth = OAuth("robot", "robots-s3cret", f"http://127.0.0.1:{server.port}", token_file=file)
        for _ in range(2):
            source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
            assert await source.call(ADD) == {"sum": 3}
            await source.aclose()
        assert memory.done == ["credentials"]  # the second found the token where the first had left it
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "access_token" in json.loads(file.read_text())["tokens"]


async def test_a_robot_with_a_wrong_secret_is_refused_without_telling_it(tmp_path: Path) -> None:
    async with guarded(robot_app) as (_, server):
        oauth = OAuth("robot", "wrong-s3cret", f"http://127.0.0.1:{server.port}", token_file=tmp_path / "t")
        source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
        with pytest.raises(ToolCallError, match="no token could be got") as caught:
            await source.tools()
        await source.aclose()
    assert (caught.value.kind, caught.value.status, caught.value.happened) == ("http", 401, "no")
    assert "wrong-s3cret" not in str(caught.value)


async def test_a_secret_goes_to_its_own_issuer_only(tmp_path: Path) -> None:
    async with guarded(robot_app) as (memory, server):
        oauth = OAuth("robot", "robots-s3cret", "https://elsewhere.invalid", token_file=tmp_path / "t")
        source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
        with pytest.raises(ToolCallError, match=r"elsewhere\.invalid"):
            await source.tools()
        await source.aclose()
        assert memory.done == []


async def test_a_person_logs_in_once(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    async with guarded(person_app) as (memory, server):
        first, second = Browser(), Browser()
        for browser in (first, second):
            oauth = OAuth(token_file=file, person=browser)
            source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
            assert await source.call(ADD) == {"sum": 3}
            await source.aclose()
        assert memory.done[:3] == ["register", "authorize", "exchange"]
        assert len(first.opened) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_token_that_is_void_is_got_anew_within_the_call(tmp_path: Path) -> None:
    async with guarded(person_app) as (memory, server):
        browser = Browser()
        oauth = OAuth(token_file=tmp_path / "t", person=browser)
        source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
        assert await source.call(ADD) == {"sum": 3}
        memory.access.clear()
        assert await source.call(ADD) == {"sum": 3}
        await source.aclose()


async def test_a_login_that_is_refused_is_said(tmp_path: Path) -> None:
    async with guarded(person_app) as (memory, server):
        memory.refuses = True
        oauth = OAuth(token_file=tmp_path / "t", person=Browser())
        source = McpSource(HttpServer(server.url, oauth=oauth), name="guarded")
        with pytest.raises(ToolCallError, match="the login was refused: access_denied"):
            await source.tools()
        await source.aclose()


async def test_the_loopback_answers_its_own_address_only() -> None:
    loopback = Loopback()
    redirect = await loopback.redirect_uri()
    async with httpx2.AsyncClient() as client:
        assert (await client.get(redirect.replace("callback", "other"))).status_code == 404
        assert (await client.get(redirect + "?code=1")).status_code == 200  # nobody waits: nothing happens
    await loopback.aclose()
