"""The service as a whole: what its front ends share, each of them, its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

from replan.config import Settings
from replan.ports import HasKeys, HasOutbox
from replan.run.access.tenants.limits import Quotas
from replan.run.access.use_cases import UseCases
from replan.server.auth.authenticator import known_callers
from replan.server.auth.exposure import asking_who_calls, check_exposure
from replan.server.registries import found, stands
from replan.server.shared import Pace, Shared, nobody_asked
from replan.server.store_check import StoreCheck
from replan.server.streams.hub import Hub
from replan.server.streams.sse import Sending
from replan.server.telemetry.delivery import Deliveries
from replan.server.telemetry.discovery import Registries
from replan.server.telemetry.metrics import Metrics
from replan.wiring import registration_of

if TYPE_CHECKING:
    from replan.app import Replan

log = logging.getLogger("replan.server")


class Up(NamedTuple):
    """Where the service listens."""

    urls: tuple[str, ...]


async def serve(
    replan: Replan,
    *,
    host: str | None = None,
    port: int | None = None,
    grpc_port: int | None = None,
    stop: asyncio.Event,
    ready: Callable[[Up], None] | None = None,
    grace_secs: float | None = None,
    page_only: bool = False,
    pace: Pace = Pace(),  # noqa: B008 -- immutable
) -> None:
    """Serve what is open until `stop` is set: then it is drained. It takes no more tasks and says so, ends its streams, and begins no step;
    calls of tools and questions to models that run may end for `grace_secs`. Then it closes.

    Tasks that have not ended by then go on when the service starts again. `host`, `port`, `grpc_port`, `grace_secs`: in place of the settings';
    where any port will do for HTTP, any will for gRPC. `page_only`: for one person and the page, over HTTP alone: it drives what it is
    given, takes up nothing that others have left, and is told of to no registry.
    """
    driver = replan.serving()
    service = replan.service
    any_port = port if port == 0 and grpc_port is None else grpc_port
    settings = asking_who_calls(_settings(replan.settings, host, port, any_port))
    check_exposure(settings)
    secs = settings.server.drain_secs if grace_secs is None else grace_secs
    loop = asyncio.get_running_loop()
    store = service.parts.store
    known = known_callers(settings, store, service.parts.clock)
    quotas = Quotas(settings.limits, service, store.keys() if isinstance(store, HasKeys) else None)
    hub = Hub(service, beat_secs=pace.beat_secs)
    metrics = Metrics(driver.load, lambda: hub.watchers)
    shared = Shared(
        use_cases=UseCases(service, driver, quotas),
        parts=service.parts,
        settings=settings,
        hub=hub,
        sending=Sending(pace.stuck_secs),
        pace=pace,
        authenticate=known or nobody_asked,
        metrics=metrics,
    )
    service.parts.taps = (*service.parts.taps, metrics)
    shared.checks["store"] = StoreCheck(store)
    replan.discovery.start()
    shared.checks |= {name: found(looked_for) for name, looked_for in replan.discovery.named()}
    deliveries = Deliveries(replan.consumers) if isinstance(store, HasOutbox) else None
    async with replan.auditing(), contextlib.AsyncExitStack() as fronts:
        # Last: what has begun is carried through, and counts among what is drained.
        fronts.push_async_callback(shared.use_cases.carrying.all_ended, secs)
        if known is not None:
            await known.begin()
            shared.checks |= known.checks()
            fronts.push_async_callback(known.aclose)
        fronts.push_async_callback(shared.hub.aclose)
        urls = [
            await fronts.enter_async_context(front(shared))
            for front in ((_http,) if page_only else (_http, _grpc))
        ]
        taking = [] if page_only else [asyncio.create_task(driver.keep_up())]
        if deliveries is not None:
            metrics.registry.register(deliveries)
            shared.checks |= {name: deliveries.stands(name) for name in replan.audited}
            looking = asyncio.create_task(deliveries.keep_up())
            fronts.callback(looking.cancel)
        registration = None
        if not page_only:
            ports = [_port(url) for url in urls]
            registration = registration_of(shared.settings, shared.settings.server.host, ports[0], ports[1])
        metrics.registry.register(Registries(replan.discovery.states, registration))
        try:
            if registration is not None:
                shared.checks["registration"] = stands(registration)
                await registration.begin()
            if ready is not None:
                ready(Up(tuple(urls)))
            await stop.wait()
        finally:
            for one in taking:
                one.cancel()
            try:
                if registration is not None:  # first, so that nobody is sent here any more
                    await registration.leave()
            finally:
                shared.leaving.set()
                service.parts.leaving.set()
                hub.stop()
        until = loop.time() + secs
        await driver.drain(secs)  # whoever calls meanwhile is told that it ends
    if left := await driver.drain(max(0.0, until - loop.time())):  # with what was stored at the last moment
        log.warning(
            "%s cut off in the midst of a call; like all that have not ended they go on when the service starts again",
            f"{left} tasks are" if left > 1 else "a task is",
        )


def _settings(settings: Settings, host: str | None, port: int | None, grpc_port: int | None) -> Settings:
    named = {"host": host, "port": port, "grpc_port": grpc_port}
    given = {name: value for name, value in named.items() if value is not None}
    return settings.model_copy(update={"server": settings.server.model_copy(update=given)})


@contextlib.asynccontextmanager
async def _http(shared: Shared) -> AsyncIterator[str]:
    from replan.server.http.app import make_app
    from replan.server.http.serving import listening
    from replan.server.interop import mount
    from replan.server.mcp.mounted import Mounted
    from replan.server.page import routes as page

    app, mounted, server = make_app(shared), Mounted(shared), shared.settings.server
    mounted.mount(app)
    mount(app, shared)
    page.mount(app)
    async with mounted.running(), listening(app, shared, server.host, server.port) as number:
        yield f"http://{_at(server.host)}:{number}"


@contextlib.asynccontextmanager
async def _grpc(shared: Shared) -> AsyncIterator[str]:
    # What it does when a tool forks is a line on stderr for each child, and of no use: no child calls into it.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from replan.server.grpc.serving import serving_grpc

    server = shared.settings.server
    async with serving_grpc(shared, server.host, server.grpc_port) as number:
        yield f"grpc://{_at(server.host)}:{number}"


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def _at(host: str) -> str:
    return f"[{host}]" if ":" in host else host
