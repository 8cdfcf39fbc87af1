"""The interface over HTTP as an ASGI application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from replan import __version__
from replan.server.http.calls import ROOT
from replan.server.http.hosts import OnlyOwnHosts
from replan.server.http.lookup import Lookup
from replan.server.http.openapi import complete
from replan.server.http.problems import answer_problems
from replan.server.http.routes import acting, catalogue, events, standing, tasks
from replan.server.shared import Shared, nobody_asked

_ABOUT = """A task in plain language goes in; a model plans a graph of tool calls, which is checked, run, judged and repaired.

`POST /tasks` submits, `GET /tasks/{id}/events` watches, `GET /waiting` shows what waits for a person, `GET /tasks/{id}/result`
has the answer. Errors are problem details (RFC 9457), whose `detail` says what was wrong and what would be right."""
_TAGS = [
    {"name": "tasks", "description": "Submit tasks, and look at them."},
    {"name": "events", "description": "Watch tasks."},
    {"name": "acting", "description": "Step into tasks."},
    {"name": "catalogue", "description": "What waits for people, and what there is."},
    {"name": "service", "description": "How the service stands. No key is needed."},
]


def make_app(shared: Shared) -> FastAPI:
    app = FastAPI(
        title="Replan",
        version=__version__,
        description=_ABOUT,
        openapi_url=f"{ROOT}/openapi.json",
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.shared = shared
    routes = [route for part in (tasks, events, acting, catalogue) for route in part.router.routes]
    routes += standing.at(ROOT, listed=True)
    routes += standing.at("", listed=False)  # where probes look for it
    app.router.routes[:0] = [Lookup(routes), *routes]
    answer_problems(app)
    server = shared.settings.server
    if server.auth == "off" or server.allowed_hosts:
        app.add_middleware(OnlyOwnHosts, server=server)
    _complete(app, asked=shared.authenticate is not nobody_asked)
    return app


def _complete(app: FastAPI, *, asked: bool) -> None:
    """Let the document say what is said once for all calls. `asked`: callers have to say who they are."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            complete(plain(), asked=asked)  # which keeps it
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
