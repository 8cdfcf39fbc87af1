"""The MCP server within the HTTP service: `/mcp`, with the same keys and tokens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route

from replan.errors import NotSignedIn
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.http.calls import body_of
from replan.server.http.problems import Refused
from replan.server.mcp.messages import Outcome
from replan.server.mcp.requests import UnderWay
from replan.server.mcp.server import Context, Tools
from replan.server.mcp.sessions import IDLE_SECS, MOST_EACH, Sessions
from replan.server.problems import LEAVING, Problem
from replan.server.shared import Shared

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_CREDENTIALS = "replan.credentials"
"""Where a request keeps what it came with."""
PATH = "/mcp"
MOST_SESSIONS = 5_000
"""Of all callers together."""
_SESSION = b"mcp-session-id"
_VERSION, _WITHOUT_SESSIONS = b"mcp-protocol-version", b"2026"
"""From that version of the protocol on nobody opens any."""
_GRACE_SECS = 0.3


class Mounted:
    """An ASGI app for one path, which takes calls while `running` is open."""

    def __init__(self, here: Shared, *, for_people: bool = True) -> None:
        self._here = here
        self._route = Route(PATH, endpoint=self, methods=["GET", "POST", "DELETE"])
        self._posts = 0
        """Calls under way."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._tools = Tools(here, self._caller_of, self._while_known, for_people=for_people)
        self._sessions = Sessions(time.monotonic, min(MOST_EACH, here.holding.most_of_a_key))
        self._under_way = UnderWay()
        self._manager = StreamableHTTPSessionManager(
            self._tools.server(version("replan")),
            max_sessions=MOST_SESSIONS,
            session_idle_timeout=IDLE_SECS,
            # By which names, and for which pages, the HTTP service around it has decided (`server.http.hosts`).
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    def mount(self, app: FastAPI) -> None:
        app.router.routes.append(self._route)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """It ends when it is said that the process ends: calls that run are answered, and no session holds a connection open."""
        started, stop = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                started.set()
                await stop.wait()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_SECS):
                        await self._idle.wait()

        self._here.leaving.heard_by(stop.set)
        loop = asyncio.get_running_loop()
        running, waiting = loop.create_task(run()), loop.create_task(started.wait())
        try:
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            waiting.cancel()
            stop.set()
            await asyncio.wait({running})
            self._here.leaving.forget(stop.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`NotSignedIn` for whoever nobody knows: the service around it answers that."""
        scope["route"] = self._route  # what metrics call it
        if self._here.leaving.now:
            raise Refused(
                Problem(LEAVING, "the service is about to end: try again in a moment", retry_after=1.0)
            )
        if scope["method"] == "GET":  # what comes outside of calls, for as long as a session lasts
            return await self._answer(scope, receive, send)
        self._posts += 1
        self._idle.clear()
        try:
            await self._answer(scope, receive, send)
        finally:
            self._posts -= 1
            if not self._posts:
                self._idle.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("client")
        credentials = Credentials.of(scope["headers"], peer[0] if peer else "")
        caller = await self._here.signed(credentials)
        body = b""
        if scope["method"] == "POST":  # before a session is opened for it
            receive, body = await self._whole(scope, receive, caller)
        # A session belongs to whoever has opened it.
        owner = AccessToken(
            token="", client_id=f"{caller.tenant}\n{caller.who}", scopes=[], subject=caller.who
        )
        name = owner.client_id
        sent = dict(scope["headers"])
        known = sent.get(_SESSION, b"").decode("latin-1")
        opens = contextlib.ExitStack()
        if not known and scope["method"] == "POST" and sent.get(_VERSION, b"") < _WITHOUT_SESSIONS:
            opens.enter_context(self._sessions.opening(name))

        begun = False

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            opens.close()
            if message["type"] == "http.response.start" and message["status"] < 400:
                given = next((value for key, value in message.get("headers", ()) if key == _SESSION), b"")
                if scope["method"] == "DELETE":
                    self._sessions.closed(name, known)
                elif session := given.decode("latin-1") or known:
                    self._sessions.used(name, session)
            await send(message)

        scope = {**scope, _CREDENTIALS: credentials, "user": AuthenticatedUser(owner)}
        asked = self._under_way.of(known, body) if known and body else None
        if asked is not None and asked.taken:
            return await asked.refusal()(scope, receive, send)
        with opens, self._here.holding.place(caller), asked or contextlib.nullcontext():
            handling = self._manager.handle_request(scope, receive, sending)
            if scope["method"] != "GET":
                return await handling
            try:
                await self._here.staying.unless_gone(credentials, handling)
            except NotSignedIn:
                if not begun:
                    raise
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, scope: Scope, receive: Receive, caller: Caller) -> tuple[Receive, bytes]:
        """What gives the request again, once its body has come; and that."""
        body = await body_of(Request(scope, receive), self._here, caller)
        waiting: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> MutableMapping[str, Any]:
            return waiting.pop() if waiting else await receive()

        return again, body

    async def _while_known(self, ctx: Context, doing: Coroutine[Any, Any, Outcome]) -> Outcome:
        credentials: Credentials = ctx.request.scope[_CREDENTIALS]  # type: ignore[union-attr]
        return await self._here.staying.unless_gone(credentials, doing)

    async def _caller_of(self, ctx: Context) -> Caller:
        credentials: Credentials = ctx.request.scope[_CREDENTIALS]  # type: ignore[union-attr]
        return await self._here.signed(credentials)
