"""How the service itself stands: for whoever watches over it, without a key."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from replan.run.access.views import Health, Ready
from replan.server.http.calls import Call, calls_about, shared_of, shown
from replan.server.http.openapi import problems
from replan.server.telemetry.metrics import CONTENT_TYPE


async def health() -> Response:
    """It is alive."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return shown(Health(timestamp=now))


async def ready(request: Request) -> Response:
    """Whether it can take tasks, with each thing that it stands on."""
    shared = shared_of(request)
    found = await shared.dependencies()
    good = all(one.ready for one in found) and not shared.leaving.now
    return shown(Ready(ready=good, dependencies=tuple(found)), 200 if good else 503)


async def metrics(call: Call) -> Response:
    """Metrics for Prometheus. Where callers are known, they are for those who keep the service: a key without a tenant."""
    await call.cases.may_measure(call.caller)
    found = call.shared.metrics
    return Response(b"" if found is None else found.text(), media_type=CONTENT_TYPE)


def at(prefix: str, *, listed: bool) -> list[BaseRoute]:
    """The routes below that prefix; `listed`: in the document."""
    open_ = calls_about("service", prefix=prefix, signed=False, listed=listed)
    open_.get("/health", response_model=Health)(health)
    busy = {"model": Ready, "description": "It takes nothing at the moment: the dependencies say why"}
    open_.get("/ready", response_model=Ready, responses={503: busy})(ready)
    signed = calls_about("service", prefix=prefix, listed=listed)
    text = {"description": "Metrics in the text form of Prometheus", "content": {"text/plain": {}}}
    signed.get("/metrics", response_class=Response, responses={200: text, **problems()})(metrics)
    return [*open_.routes, *signed.routes]
