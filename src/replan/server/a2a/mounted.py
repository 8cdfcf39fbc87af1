"""A2A within the HTTP service: the agent card, and `/a2a` with the same keys and tokens."""

from __future__ import annotations

from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from replan.server.a2a.bounds import too_much
from replan.server.a2a.card import CARD_PATH, PATH, card_of
from replan.server.a2a.handler import WHO, Handler, Who
from replan.server.http.calls import body_of, credentials_of, in_its_file
from replan.server.http.large import LARGE_BYTES, LargeAnswer
from replan.server.http.problems import Refused
from replan.server.problems import LEAVING, Problem
from replan.server.shared import Shared
from replan.server.streams.sse import CutOffWhenStuck


class _Contexts:
    """Makes the context of a call, which has who calls."""

    def build(self, request: Request) -> Any:
        state = {"headers": dict(request.headers), WHO: request.scope[WHO]}
        return ServerCallContext(state=state)


def mount(app: FastAPI, here: Shared) -> None:
    """Version 1.0 of the protocol, and 0.3 for older clients, by what a call says."""
    dispatcher = JsonRpcDispatcher(Handler(here), _Contexts(), enable_v0_3_compat=True)

    async def card(request: Request) -> Response:
        made = card_of(here.settings.server, str(request.base_url))
        return JSONResponse(agent_card_to_dict(made), headers={"cache-control": "no-store"})

    async def answer(request: Request) -> Response:
        if here.leaving.now:
            raise Refused(
                Problem(LEAVING, "the service is about to end: try again in a moment", retry_after=1.0)
            )
        credentials = credentials_of(request)
        who = request.scope[WHO] = Who(await here.signed(credentials), credentials)
        await body_of(request, here, who.caller)
        if (refusal := await too_much(request)) is not None:
            return refusal
        made: Response = await dispatcher.handle_requests(request)
        if isinstance(made, JSONResponse) and len(made.body) > LARGE_BYTES:
            media = made.media_type or "application/json"
            large = LargeAnswer(bytes(made.body), made.status_code, None, media)
            return await in_its_file(large, request.scope, here, who.caller)
        return CutOffWhenStuck(made, here.sending)

    app.router.routes += [
        Route(CARD_PATH, card, methods=["GET"], name="agent_card"),
        Route(PATH, answer, methods=["POST"], name="a2a"),
    ]
