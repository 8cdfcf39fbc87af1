"""How the service itself stands: for whoever watches over it, without a key."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from replan.run.access.views import Health, Ready
from replan.server.http.calls import Cases, Signed, SignedRoute, shared_of, shown
from replan.server.http.openapi import problems
from replan.server.telemetry.metrics import CONTENT_TYPE

measured = APIRouter(tags=["service"], route_class=SignedRoute)
"""What tells of the tasks of all tenants."""
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


@measured.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Metrics in the text form of Prometheus", "content": {"text/plain": {}}}, **problems()},
)  # fmt: skip
async def metrics(request: Request, caller: Signed, cases: Cases) -> Response:
    """Metrics for Prometheus. Where callers are known, they are for those who keep the service: a key without a tenant."""
    await cases.may_measure(caller)
    found = shared_of(request).metrics
    return Response(b"" if found is None else found.text(), media_type=CONTENT_TYPE)
