"""How a call comes in and goes out: who calls is known before its body is read, and the body is JSON read strictly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response

from replan.core.data.strict_json import NotStorable, read_strictly
from replan.run.access.callers import Caller
from replan.run.access.use_cases import UseCases
from replan.server.auth.credentials import Credentials
from replan.server.http.problems import Refused
from replan.server.problems import LEAVING, MISFIT, NOT_JSON, WRONG_MEDIA, Problem
from replan.server.shared import Shared

ROOT = "/api/v1"
_CALLER = "replan.caller"
_READ_BESIDE = 65_536
"""Bytes of a body from which on it is read beside the event loop."""


def shared_of(request: Request) -> Shared:
    found: Shared = request.app.state.shared
    return found


async def _caller(request: Request) -> Caller:
    found: Caller = request.scope[_CALLER]
    return found


async def _use_cases(request: Request) -> UseCases:
    return shared_of(request).use_cases


Signed = Annotated[Caller, Depends(_caller)]
Cases = Annotated[UseCases, Depends(_use_cases)]


def credentials_of(request: Request) -> Credentials:
    client = request.client
    return Credentials.of(request.headers.raw, "" if client is None else client.host)


class _Strict(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            if len(body) > _READ_BESIDE:
                return await asyncio.to_thread(read_strictly, body)
            return read_strictly(body)
        except NotStorable as error:
            raise Refused(Problem(NOT_JSON, f"the body cannot be taken as JSON: {error}")) from None
        except (ValueError, RecursionError) as error:
            raise Refused(Problem(NOT_JSON, f"the body is no JSON: {error}")) from None


def _in_query(dependant: Any) -> Iterator[str]:
    """The names that a call takes in its address, those of what it depends on included."""
    yield from (one.alias for one in dependant.query_params)
    for one in dependant.dependencies:
        yield from _in_query(one)


class SignedRoute(APIRoute):
    """A route for callers who are known."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes = self.body_field is not None
        names = set(_in_query(self.dependant))

        async def signed(request: Request) -> Response:
            shared = shared_of(request)
            if shared.leaving.now and request.method != "GET":
                raise Refused(
                    Problem(LEAVING, "the service is about to end: try again in a moment", retry_after=1.0)
                )
            request.scope[_CALLER] = await shared.signed(credentials_of(request))
            if unknown := sorted(request.query_params.keys() - names):
                there = f"there are {', '.join(sorted(names))}" if names else "this call takes none"
                raise Refused(Problem(MISFIT, f"query.{unknown[0][:100]}: there is no such name; {there}"))
            if not takes:
                return await handle(request)
            _check_media(request)
            return await handle(_Strict(request.scope, request.receive))

        return signed


def calls_about(tag: str, *, prefix: str = ROOT, signed: bool = True, listed: bool = True) -> APIRouter:
    """Where the calls about that are put. `signed`: callers are known. `listed`: they are in the document."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=SignedRoute if signed else APIRoute,
        include_in_schema=listed,
        generate_unique_id_function=lambda route: route.name,
    )


def _check_media(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media = given.partition(";")[0].strip().lower()
    if media == "application/json" or (media.startswith("application/") and media.endswith("+json")):
        return
    length = request.headers.get("content-length")
    if not given and (length == "0" or (length is None and "transfer-encoding" not in request.headers)):
        return  # no body
    named = f"{given[:100]!r}" if given else "none"
    raise Refused(
        Problem(WRONG_MEDIA, f"the content type is {named}; send JSON, with `Content-Type: application/json`")
    )


T = TypeVar("T")


async def unless_leaving(shared: Shared, waiting: Coroutine[Any, Any, T]) -> T:
    """What it gives that may be long in coming; `Refused` once the service is about to end."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    task = loop.create_task(waiting)
    shared.leaving.heard_by(tell)
    try:
        both: set[asyncio.Future[Any]] = {task, told}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Refused(Problem(LEAVING, "the service is about to end: ask again in a moment", retry_after=1.0))
    finally:
        shared.leaving.forget(tell)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def shown(view: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The view as the answer."""
    return Response(view.__pydantic_serializer__.to_json(view), status, headers, "application/json")


def listed(views: Any, status: int = 200) -> Response:
    return Response(to_json(views, inf_nan_mode="constants"), status, None, "application/json")
