"""How the service itself stands: for whoever watches over it, without a key."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from replan.run.access.views import Health, Ready
from replan.server.http.calls import shared_of, shown

router = APIRouter(tags=["service"])


@router.get("/health", response_model=Health)
async def health() -> Response:
    """It is alive."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return shown(Health(timestamp=now))


@router.get(
    "/ready",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "It takes nothing at the moment: the dependencies say why"}},
)  # fmt: skip
async def ready(request: Request) -> Response:
    """Whether it can take tasks, with each thing that it stands on."""
    shared = shared_of(request)
    found = await shared.dependencies()
    good = all(one.ready for one in found) and not shared.leaving.now
    return shown(Ready(ready=good, dependencies=tuple(found)), 200 if good else 503)
