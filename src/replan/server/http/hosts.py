"""Only by its own names: what is sent to another host is not answered."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from replan.server.auth.exposure import Hosts
from replan.server.http.problems import answer_of
from replan.server.problems import WRONG_HOST, Problem


class OnlyOwnHosts:
    """A page must not reach the service by a name of its own that leads here: a browser would take it for the page's."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).getlist("host")
            if len(given) != 1 or not self._hosts.fit(given[0]):
                said = f"{given[0][:100]!r}" if given else "no host"
                names = ", ".join(self._hosts.names)
                problem = Problem(
                    WRONG_HOST,
                    f"the call is for {said}, and the service is called {names}: see [server] allowed_hosts",
                )
                await answer_of(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)
