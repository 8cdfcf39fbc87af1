"""How a call comes in and goes out: who calls is known before its body is read, and the body is JSON read strictly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import PydanticUndefined, to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from replan.beside import beside
from replan.core.data.pieces import in_pieces, weight
from replan.core.data.strict_json import NotStorable, read_strictly
from replan.errors import TooMany
from replan.run.access.callers import Caller
from replan.run.access.use_cases import UseCases
from replan.server.auth.cookie import OWN_HEADER, as_credentials, given_by_page, may_by_cookie
from replan.server.auth.credentials import Credentials
from replan.server.http.large import LargeAnswer, answer
from replan.server.http.problems import Refused
from replan.server.problems import (
    LEAVING,
    MISFIT,
    NOT_JSON,
    SENT_TWICE,
    TIMED_OUT,
    WRONG_MEDIA,
    WRONG_ORIGIN,
    Problem,
    problem_of,
)
from replan.server.shared import Shared

ROOT = "/api/v1"
_LISTS = frozenset({b"accept"})
"""Headers whose values may come in several."""
_READ_BESIDE = 65_536
"""Bytes of a body from which on it is read beside the event loop."""


def shared_of(request: Request) -> Shared:
    found: Shared = request.app.state.shared
    return found


def credentials_of(request: Request) -> Credentials:
    """Of its headers; without any there, the page's cookie."""
    peer = "" if request.client is None else request.client.host
    headers = request.headers.raw
    given = Credentials.of(headers, peer)
    if given.authorization is not None or given.api_key is not None:
        return given
    if (key := given_by_page(headers)) is None:
        return given
    if not may_by_cookie(request.method, headers):
        said = f"a call that has nothing but the page's cookie needs its header too: {OWN_HEADER}"
        raise Refused(Problem(WRONG_ORIGIN, said))
    return as_credentials(key, peer, given.traceparent)


class Call(Request):
    """A call of somebody who is known. One parameter of a route, where a dependency for each of these would cost as much as the answer."""

    def __init__(self, request: Request, shared: Shared, caller: Caller) -> None:
        super().__init__(request.scope, request.receive)
        self.shared = shared
        self.caller = caller

    @property
    def cases(self) -> UseCases:
        return self.shared.use_cases

    async def json(self) -> Any:
        """Its body, read strictly."""
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
        takes, handle = self.body_field is not None, self._with_what_it_takes()
        names = set(_in_query(self.dependant))
        single = frozenset(one.alias.lower().encode() for one in self.dependant.header_params) - _LISTS

        async def signed(request: Request) -> Response:
            shared = shared_of(request)
            if shared.leaving.now and request.method != "GET":
                raise Refused(
                    Problem(LEAVING, "the service is about to end: try again in a moment", retry_after=1.0)
                )
            call = Call(request, shared, await shared.signed(credentials_of(request)))
            if single:
                _check_headers(call, single)
            if request.scope["query_string"]:
                _check_names(call, names)
            if takes:
                _check_media(call)
            return await handle(call)

        return signed

    def _with_what_it_takes(self) -> Callable[[Call], Coroutine[Any, Any, Response]]:
        """Calls the endpoint with what the address, the headers and a body of JSON give, which is all that it takes.

        FastAPI's own way provides for dependencies, forms, cookies and what is returned, and costs twice of what such a call does.
        """
        declared, endpoint, embedded = self.dependant, self.endpoint, self._embed_body_fields
        assert not declared.dependencies + declared.cookie_params
        body = declared.body_params
        path, query, headers = declared.path_params, declared.query_params, declared.header_params
        named = declared.request_param_name

        async def handle(call: Call) -> Response:
            values, faults = request_params_to_args(path, call.path_params)
            for fields, given in ((query, "query_params"), (headers, "headers")):
                if fields:
                    found, wrong = request_params_to_args(fields, getattr(call, given))
                    values.update(found)
                    faults += wrong
            if body:
                whole = await body_of(call, call.shared, call.caller)
                sent = await call.json() if whole else PydanticUndefined
                found, wrong = await request_body_to_args(body, sent, embedded)
                values.update(found)
                faults += wrong
            if faults:
                raise RequestValidationError(faults)
            if named is not None:
                values[named] = call
            made: Response = await endpoint(**values)
            return made

        return handle


async def body_of(request: Request, shared: Shared, caller: Caller) -> bytes:
    """The body of a call; as long as that has not come whole it counts for what its caller may hold."""
    try:
        leave = shared.arriving.take(caller)
    except TooMany as error:
        raise Refused(problem_of(error), {"connection": "close"}) from None
    try:
        return await request.body()
    except ClientDisconnect:  # nobody reads that
        raise Refused(Problem(NOT_JSON, "the body has not come whole")) from None
    finally:
        leave()


def calls_about(tag: str, *, prefix: str = ROOT, signed: bool = True, listed: bool = True) -> APIRouter:
    """Where the calls about that are put. `signed`: callers are known. `listed`: they are in the document."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=SignedRoute if signed else APIRoute,
        include_in_schema=listed,
        generate_unique_id_function=lambda route: route.name,
    )


def _check_headers(request: Request, single: frozenset[bytes]) -> None:
    """Of one that is sent twice nobody guesses which counts."""
    sent = [name for name, _ in request.scope["headers"] if name in single]
    if len(sent) > 1 and (twice := next((name for name in single if sent.count(name) > 1), None)):
        raise Refused(
            Problem(SENT_TWICE, f"header.{twice.decode()}: it is sent more than once; send it once")
        )


def _check_names(request: Request, names: set[str]) -> None:
    if unknown := sorted(request.query_params.keys() - names):
        there = f"there are {', '.join(sorted(names))}" if names else "this call takes none"
        raise Refused(Problem(MISFIT, f"query.{unknown[0][:100]}: there is no such name; {there}"))


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
    return answer(view.__pydantic_serializer__.to_json(view), status, headers)


async def shown_beside(view: BaseModel, *heavy: Any) -> Response:
    """The same of a view in which these may be large: then it is written piece by piece, and the event loop goes on meanwhile."""
    if weight(heavy, _READ_BESIDE) <= _READ_BESIDE:
        return shown(view)
    return answer(await beside(_in_pieces, view))


def _in_pieces(view: BaseModel) -> bytes:
    _, parts = in_pieces(_opened(view), _piece)
    return b"".join(parts)


def _opened(value: Any) -> Any:
    """A view as plain values, and what it holds as it is: to copy that is one call into C, of seconds where it has many values."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        if any(field.exclude or field.exclude_if for field in fields.values()):
            return value  # it says itself what of it is written
        return {name: _opened(getattr(value, name)) for name in fields}
    if isinstance(value, list | tuple) and value and isinstance(value[0], BaseModel):
        return [_opened(item) for item in value]
    return value


def _piece(piece: Any, _: int) -> tuple[Any, bytes]:
    return piece, to_json(piece, inf_nan_mode="constants")


Begin = Callable[[], Awaitable[None]]


async def in_turn(call: Call, making: Callable[[Begin], Awaitable[Response]]) -> Response:
    """An answer that may be large, as `making` gives it; that is to wait for what it is given before it reads anything large."""
    turns = call.shared.turns
    with turns.turn(call.caller) as turn:

        async def begin() -> None:
            await turn.begin()
            if await call.is_disconnected():  # nobody reads that
                raise Refused(Problem(TIMED_OUT, "the caller has gone before it was its turn"))

        made = await making(begin)
        if isinstance(made, LargeAnswer):
            return await in_its_file(made, call.scope, call.shared, call.caller)
        return made


async def in_its_file(made: LargeAnswer, scope: Scope, shared: Shared, caller: Caller) -> Response:
    """It counts for the caller until it is taken."""
    await made.put_down(scope)
    made.untaken = partial(shared.turns.untaken, caller)
    return made


def listed(views: Any, status: int = 200) -> Response:
    return answer(to_json(views, inf_nan_mode="constants"), status)
