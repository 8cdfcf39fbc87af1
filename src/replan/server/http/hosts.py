"""Only by its own names, and not for pages of others: what a browser would send for a page that it is not for is not answered."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from replan.config.sections import Server
from replan.server.auth.exposure import Hosts, page_fits
from replan.server.http.calls import ROOT
from replan.server.http.problems import answer_of
from replan.server.problems import WRONG_HOST, WRONG_ORIGIN, Problem

_LOOKED_AT = frozenset({b"host", b"origin"})
_MOST_KNOWN = 64
_HEALTH = frozenset({"/health", f"{ROOT}/health"})
_OPEN = _HEALTH | {"/ready", f"{ROOT}/ready"}
"""What probes ask for, who know the service by its address; where nobody is asked who they are, that says too much of it."""


class OnlyOwnHosts:
    """A page must not reach the service by a name of its own that leads here, nor by a request that asks the browser for no leave."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server
        self._hosts = Hosts.of(server)
        self._open = _OPEN if server.auth != "off" else _HEALTH
        self._good: set[bytes] = set()
        """Names that it was called by lately, and that are its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        looks = scope["type"] == "http" and scope["path"] not in self._open
        if looks and (problem := self._looked_at(scope)) is not None:
            await answer_of(problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _looked_at(self, scope: Scope) -> Problem | None:
        """One host that is known, and no page: as most calls are."""
        said = [pair for pair in scope["headers"] if pair[0] in _LOOKED_AT]
        host = said[0][1] if len(said) == 1 and said[0][0] == b"host" else None
        if host in self._good:
            return None
        problem = self._problem(Headers(scope=scope))
        if problem is None and host is not None and len(self._good) < _MOST_KNOWN:
            self._good.add(host)
        return problem

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
