"""`/` and `/page/…`: the files of the page, and a key that is exchanged once for a cookie."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel
from starlette.responses import Response

from replan import __version__
from replan.core.data.strict_json import NotStorable, read_strictly
from replan.page.assets import ROOT, assets
from replan.run.access.callers import Caller
from replan.server.auth.cookie import OWN_HEADER, as_credentials, dropped, fits, kept
from replan.server.auth.refused import Refused as NotKnown
from replan.server.http.calls import Call, calls_about, shared_of, shown
from replan.server.http.large import answer
from replan.server.http.problems import Refused
from replan.server.problems import MISFIT, NO_ROUTE, NOT_JSON, WRONG_ORIGIN, Problem
from replan.server.shared import nobody_asked

_KEPT = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
_ALWAYS = {
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
files = APIRouter(include_in_schema=False)
signed = calls_about("page", prefix=ROOT, listed=False)


class Session(BaseModel):
    """Who looks at the page, and what it is the page of."""

    by: str
    tenant: str
    scopes: list[str]
    asked: bool
    """False: nobody is asked who they are."""
    mode: str
    """`[response] mode`: whether words of prompts are shown."""
    version: str


def mount(app: FastAPI) -> None:
    app.router.routes.extend([*signed.routes, *files.routes])


@files.get("/")
async def index() -> Response:
    found = assets()
    headers = {**_ALWAYS, "content-security-policy": found.policy}
    return Response(found.html, headers=headers, media_type="text/html")


@files.get(ROOT + "/{digest}/{path:path}")
async def file(digest: str, path: str) -> Response:
    found = assets()
    asset = found.served.get(path) if digest == found.digest else None
    if asset is None:
        raise Refused(Problem(NO_ROUTE, "there is no such file of the page: load the page anew"))
    return answer(asset.body, headers=dict(_KEPT), media_type=asset.media_type)


@signed.get("/session")
async def session(call: Call) -> Response:
    """Who looks at it."""
    return shown(_session(call, call.caller))


@files.post(ROOT + "/session")
async def sign_in(request: Request) -> Response:
    """A key, or a token, for the cookie. It is checked as at any call."""
    _own(request)
    key = await _key_of(request)
    if not fits(key):
        raise NotKnown("not in the form of a key or token")
    peer = "" if request.client is None else request.client.host
    caller = await shared_of(request).signed(as_credentials(key, peer))
    return shown(_session(request, caller), headers={"set-cookie": kept(key, secure=_secure(request))})


@files.delete(ROOT + "/session")
async def sign_out(request: Request) -> Response:
    _own(request)
    return Response(status_code=204, headers={"set-cookie": dropped(secure=_secure(request))})


def _session(request: Request, caller: Caller) -> Session:
    shared = shared_of(request)
    return Session(
        by=caller.who,
        tenant=caller.tenant,
        scopes=sorted(caller.scopes),
        asked=shared.authenticate is not nobody_asked,
        mode=shared.settings.response.mode,
        version=__version__,
    )


def _own(request: Request) -> None:
    if OWN_HEADER not in request.headers:
        raise Refused(Problem(WRONG_ORIGIN, f"that is for the page itself, which sends {OWN_HEADER}"))


async def _key_of(request: Request) -> str:
    try:
        sent: Any = read_strictly(await request.body())
    except NotStorable as error:
        raise Refused(Problem(NOT_JSON, f"the body cannot be taken as JSON: {error}")) from None
    except (ValueError, RecursionError) as error:
        raise Refused(Problem(NOT_JSON, f"the body is no JSON: {error}")) from None
    key = sent.get("key") if isinstance(sent, dict) else None
    if not isinstance(key, str) or not key.strip():
        raise Refused(Problem(MISFIT, 'key: give the key, as in {"key": "rpk_…"}'))
    return key.strip()


def _secure(request: Request) -> bool:
    """Whether the browser has come over TLS, also where something before the service has ended that: its own word counts."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
