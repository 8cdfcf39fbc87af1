"""A service on loopback with everything that calls through OpenAPI may meet: logins, redirects, pages, large answers."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

PNG = bytes(range(256))


class World:
    """`seen`: every request, as text that a test can search; `counts`: requests by path."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.tokens: list[str] = []
        self.revoked: set[str] = set()
        self.redirect_to = ""
        self.redirect_status = 302
        self.asked = threading.Event()
        """A token was asked for."""
        self.gate = threading.Event()
        """It is given when this is set."""
        self.gate.set()
        self.app = Starlette(
            routes=[
                Route("/token", self.token, methods=["POST"]),
                Route("/oauth", self.oauth),
                Route("/redirect", self.redirect, methods=["GET", "POST"]),
                Route("/see-other", self.see_other, methods=["POST"]),
                Route("/sent-on", self.sent_on, methods=["POST"]),
                Route("/numbers", self.numbers, methods=["POST"]),
                Route("/status/{code:int}", self.status, methods=["GET", "POST"]),
                Route("/text", self.text),
                Route("/bytes", self.bytes_),
                Route("/empty", self.empty),
                Route("/huge", self.huge),
                Route("/html", self.html),
                Route("/lies", self.lies),
                Route("/half", self.half),
                Route("/linked", self.linked),
                Route("/cursor", self.cursor),
                Route("/numbered", self.numbered),
                Route("/unnumbered", self.unnumbered),
                Route("/offsets", self.offsets),
                Route("/{path:path}", self.echo, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
            ]
        )

    async def _note(self, request: Request) -> dict[str, Any]:
        note = {
            "method": request.method,
            "path": request.scope["path"],
            "query": request.url.query,
            "headers": dict(request.headers),
            "body": (await request.body()).decode("latin-1"),
        }
        self.seen.append(note)
        self.counts[request.url.path] += 1
        return note

    async def echo(self, request: Request) -> Response:
        return JSONResponse(await self._note(request), headers={"X-Kind": "echo"})

    async def token(self, request: Request) -> Response:
        note = await self._note(request)
        given = parse_qs(note["body"])
        if note["headers"].get("authorization") != "Basic " + base64.b64encode(b"me:s3cret").decode():
            return JSONResponse({"error": "invalid_client", "error_description": "s3cret is wrong"}, 401)
        self.asked.set()
        await asyncio.to_thread(self.gate.wait, 10)
        token = f"token-{len(self.tokens)}"
        self.tokens.append(token)
        return JSONResponse({"access_token": token, "expires_in": 3600, "scope": given.get("scope", [""])[0]})

    async def oauth(self, request: Request) -> Response:
        note = await self._note(request)
        token = note["headers"].get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens or token in self.revoked:
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse({"token": token})

    async def redirect(self, request: Request) -> Response:
        await self._note(request)
        return RedirectResponse(self.redirect_to, self.redirect_status)

    async def see_other(self, request: Request) -> Response:
        await self._note(request)
        return RedirectResponse("/made/1", 303)

    async def sent_on(self, request: Request) -> Response:
        return Response(status_code=303, headers={"Location": self.redirect_to})

    async def numbers(self, request: Request) -> Response:
        return Response(b'{"ok": true, "id": 12345, "half": "\\ud800"}', 500, media_type="application/json")

    async def status(self, request: Request) -> Response:
        note = await self._note(request)
        code = int(request.path_params["code"])
        problem = {
            "type": "about:blank",
            "title": "It failed",
            "detail": f"because of {code}; you sent {note['headers'].get('authorization')}",
            "errors": [{"field": "name", "code": "too_long"}],
        }
        headers = {"Retry-After": "7"} if code in (429, 503) else {}
        return JSONResponse(problem, code, headers, media_type="application/problem+json")

    async def text(self, request: Request) -> Response:
        return PlainTextResponse("naïve ☃")

    async def bytes_(self, request: Request) -> Response:
        return Response(PNG, media_type="image/png")

    async def empty(self, request: Request) -> Response:
        return Response(status_code=204)

    async def html(self, request: Request) -> Response:
        return Response("<html><title>Log in</title></html>", media_type="text/html")

    async def half(self, request: Request) -> Response:
        return Response(b'{"names": ["caf\\udce9"]}', media_type="application/json")

    async def lies(self, request: Request) -> Response:
        return JSONResponse({"count": "many"}, media_type="text/plain")

    async def huge(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            while not await request.is_disconnected():
                yield b"x" * 65_536

        return StreamingResponse(pieces(), media_type="text/plain")

    async def linked(self, request: Request) -> Response:
        await self._note(request)
        page = int(request.query_params.get("page", "1"))
        where = request.query_params.get("away", str(request.url.replace(query="")))
        headers = {"Link": f'<{where}?page={page + 1}>; rel="next", <{where}>; rel=first'} if page < 4 else {}
        return JSONResponse([page * 10, page * 10 + 1], headers=headers)

    async def cursor(self, request: Request) -> Response:
        await self._note(request)
        at = request.query_params.get("cursor", "a")
        following = {"a": "b", "b": "c", "c": ""}[at]
        return JSONResponse({"data": [{"id": at}], "meta": {"next_cursor": following}})

    async def numbered(self, request: Request) -> Response:
        await self._note(request)
        page = int(request.query_params.get("page", "1"))
        return JSONResponse({"results": [page], "total_pages": 3})

    async def unnumbered(self, request: Request) -> Response:
        return JSONResponse({"results": ["always", "the same"]})

    async def offsets(self, request: Request) -> Response:
        await self._note(request)
        start, limit = (
            int(request.query_params.get("offset", "0")),
            int(request.query_params.get("limit", "2")),
        )
        return JSONResponse({"items": list(range(5))[start : start + limit], "total": 5, "offset": start})


def operation(method: str, path: str, name: str, **more: Any) -> dict[str, Any]:
    """One path of a document."""
    return {path: {method: {"operationId": name, "responses": {"200": {"description": ""}}, **more}}}


def document(*paths: dict[str, Any], schemes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A document of these paths."""
    merged: dict[str, Any] = {}
    for each in paths:
        for path, item in each.items():
            merged.setdefault(path, {}).update(item)
    return {
        "openapi": "3.1.0",
        "info": {"title": "world", "version": "1"},
        "paths": merged,
        "components": {"securitySchemes": schemes or {}},
        **more,
    }


def answers(schema: Any) -> dict[str, Any]:
    """`responses` with one JSON answer."""
    return {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}


def query(**schemas: Any) -> list[dict[str, Any]]:
    """Query parameters of these schemas."""
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]
