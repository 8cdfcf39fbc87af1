"""Only by its own names, and not for pages of others: what a browser would send for a page that it is not for is not answered."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from replan.config.sections import Server
from replan.server.auth.exposure import Hosts, page_fits
from replan.server.http.problems import answer_of
from replan.server.problems import WRONG_HOST, WRONG_ORIGIN, Problem


class OnlyOwnHosts:
    """A page must not reach the service by a name of its own that leads here, nor by a request that asks the browser for no leave."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server
        self._hosts = Hosts.of(server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := self._problem(Headers(scope=scope))) is not None:
            await answer_of(problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _problem(self, headers: Headers) -> Problem | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = hosts[0] if len(hosts) == 1 else None
        if not self._hosts.fit(host):
            said = f"{hosts[0][:100]!r}" if hosts else "no host"
            names = ", ".join(self._hosts.names)
            return Problem(
                WRONG_HOST,
                f"the call is for {said}, and the service is called {names}: see [server] allowed_hosts",
            )
        for origin in origins:
            if not page_fits(origin, host, self._server):
                return Problem(
                    WRONG_ORIGIN,
                    f"a page of {origin[:100]!r} asks, and nobody is asked who they are: name the origin in [server] cors_origins",
                )
        return None
