"""Finds the route of a call without trying one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

_FOUND = "replan.route"


class Lookup(BaseRoute):
    """Stands before the routes, and answers for those whose addresses have a known number of parts. What it does not find comes to them."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes: dict[tuple[str, int, str], list[Route]] = {}
        for route in routes:
            if isinstance(route, Route) and ":path}" not in route.path:
                for method in route.methods or ():
                    self._routes.setdefault((method, *_shape(route.path)), []).append(route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http":
            path = scope["path"]
            count, last = _shape(path)
            for key in ((scope["method"], count, last), (scope["method"], count, "")):
                for route in self._routes.get(key, ()):
                    match, child = route.matches(scope)
                    if match is Match.FULL:
                        return match, {**child, _FOUND: route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: Any = scope[_FOUND]
        await route.handle(scope, receive, send)


def _shape(path: str) -> tuple[int, str]:
    """How many parts the address has, and the last of them; empty where that is a parameter."""
    last = path.rpartition("/")[2]
    return path.count("/"), "" if last.startswith("{") else last
