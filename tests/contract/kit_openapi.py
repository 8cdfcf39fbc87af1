"""An OpenAPI document and a server that does what it says, as a kit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tool_kit import WAIT_SECS, Kit

from live_server import serving
from replan.tools.openapi import OpenApiSource


def _body(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(schema: Any) -> dict[str, Any]:
    return {"200": {"description": "done", "content": {"application/json": {"schema": schema}}}}


_NUMBER = {"type": "integer"}
_SUM = {"type": "object", "properties": {"sum": _NUMBER}, "required": ["sum"]}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "kit", "version": "1"},
    "paths": {
        "/echo": {
            "post": {
                "operationId": "echo",
                "x-replan-effect": "reads",
                "requestBody": _body(value={}),
                "responses": _answer({}),
            }
        },
        "/add": {
            "post": {
                "operationId": "add",
                "x-replan-effect": "reads",
                "requestBody": _body(a=_NUMBER, b=_NUMBER),
                "responses": _answer(_SUM),
            }
        },
        "/fail": {
            "post": {
                "operationId": "fail",
                "requestBody": _body(text={"type": "string"}),
                "responses": {"400": {"description": "never works"}},
            }
        },
        "/wait": {"post": {"operationId": "wait", "responses": _answer({})}},
        "/progress": {"post": {"operationId": "progress", "responses": _answer({"type": "object"})}},
        "/meet/{n}": {
            "get": {
                "operationId": "meet",
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": _NUMBER}],
                "responses": _answer({"type": "boolean"}),
            }
        },
    },
}


def _app(kit: Kit) -> Starlette:
    count = [0]
    everyone: list[asyncio.Event] = []

    async def echo(request: Request) -> Response:
        return JSONResponse((await request.json())["value"])

    async def add(request: Request) -> Response:
        given = await request.json()
        return JSONResponse({"sum": given["a"] + given["b"]})

    async def fail(request: Request) -> Response:
        problem = {"title": "Bad request", "detail": (await request.json())["text"], "status": 400}
        return JSONResponse(problem, 400, media_type="application/problem+json")

    async def wait(request: Request) -> Response:
        kit.started.set()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        kit.reached.set()
        return Response(status_code=204)

    async def progress(request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def meet(request: Request) -> Response:
        if not everyone:
            everyone.append(asyncio.Event())
        count[0] += 1
        if count[0] >= int(request.path_params["n"]):
            everyone[0].set()
        async with asyncio.timeout(WAIT_SECS):
            await everyone[0].wait()
        return JSONResponse(True)

    return Starlette(
        routes=[
            Route("/echo", echo, methods=["POST"]),
            Route("/add", add, methods=["POST"]),
            Route("/fail", fail, methods=["POST"]),
            Route("/wait", wait, methods=["POST"]),
            Route("/progress", progress, methods=["POST"]),
            Route("/meet/{n:int}", meet),
        ]
    )


class _Kit(Kit):
    turns = 50
    reports = False


@contextlib.asynccontextmanager
async def openapi() -> AsyncIterator[Kit]:
    kit = _Kit()
    with serving(_app(kit)) as url:
        kit.source = OpenApiSource(DOCUMENT, server=url)
        try:
            yield kit
        finally:
            await kit.source.aclose()


KITS = [pytest.param(openapi, id="openapi")]
