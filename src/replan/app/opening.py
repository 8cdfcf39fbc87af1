"""Opens the parts of a `Replan`: the store, the list of its tools, the engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path

from replan import __version__
from replan.app.arguments import Ask
from replan.app.running import Running
from replan.config import Settings
from replan.core.secrets import KnownSecrets
from replan.engine.local import LocalEngine
from replan.errors import StoreError
from replan.ports import Kinds, Store
from replan.run.service.announcer import Announcer
from replan.run.service.pruning import Tidying
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.run.session.shielding import see_through
from replan.run.session.tool_record import ToolRecord
from replan.tools.catalog.catalog import Catalog
from replan.tools.catalog.own_tools import WithOwnTools
from replan.wiring import (
    Models,
    SystemClock,
    Ulids,
    debug_log_of,
    driver_name,
    need_queue,
    open_store,
    queue_of,
    traces_of,
)


async def opened(
    closing: AsyncExitStack,
    db: str | Path,
    settings: Settings,
    catalog: Catalog,
    models: Models,
    announcer: Announcer | None,
    *,
    ask: Ask | None,
    record_tells: bool,
    secrets: KnownSecrets,
    approval: str,
    kinds: Kinds,
) -> Running:
    """Open them; `closing` closes them again: last in, first out, each whatever becomes of the others."""
    store = open_store(db, settings)
    queue, by_workers = queue_of(store), settings.engine.kind == "procrastinate"
    record = ToolRecord(tells=record_tells)
    closing.push_async_callback(_see_closed, store)  # files are not left open
    if by_workers:
        await need_queue(queue).prepare()
    closing.push_async_callback(record.flush, store)
    closing.push_async_callback(_remember, catalog, store)  # of sources that came late
    closing.push_async_callback(catalog.aclose)  # sources that are tried again would go on with that
    await catalog.open(await store.remembered_tools())
    await _remember(catalog, store)
    await record.load(store)
    closing.push_async_callback(models.aclose)
    if announcer is not None:
        closing.push_async_callback(announcer.aclose)
    parts = Parts(
        store, WithOwnTools(catalog, catalog.rules), models, SystemClock(), Ulids(),
        driver=driver_name(shared=queue is not None), version=__version__, record=record, ask=ask, secrets=secrets,
        approval=approval, kinds=kinds,
    )  # fmt: skip
    if (debug := debug_log_of(settings)) is not None:
        closing.callback(debug.close)
        parts.taps = (*parts.taps, debug)
    if (traces := traces_of(settings)) is not None:
        closing.push_async_callback(asyncio.to_thread, traces.close)
        parts.taps = (*parts.taps, traces)
    service = Service(parts)
    limits = settings.orchestrator

    def lend_after(going: Collection[str]) -> float:
        if limits.lend_place_after_secs is not None:
            return limits.lend_place_after_secs
        return min(limits.task_timeout_secs, parts.under_way.shortest_limit(going)) / 10

    parts.turns.still, parts.turns.lend_after = parts.under_way.still_secs, lend_after
    engine = LocalEngine(
        service.drive, limits.max_concurrent_tasks, service.hear_cancel, still=parts.under_way.still_secs,
        lend_after=lend_after, asleep=service.until_it_goes_on, elsewhere=service.driven_elsewhere,
    )  # fmt: skip
    running = Running(service, engine, models, announcer, queue, by_workers=by_workers)
    closing.callback(service.overhearing.close)
    closing.push_async_callback(running.aclose)
    tidying = Tidying(store, settings.store.retention_days, parts.clock.now)
    tidying.begin()
    closing.push_async_callback(tidying.aclose)
    return running


async def _remember(catalog: Catalog, store: Store) -> None:
    """Keep the names that the sources have, where they are others than before."""
    with contextlib.suppress(StoreError):
        if catalog.remembered != await store.remembered_tools():
            await store.remember_tools(catalog.remembered)


async def _see_closed(store: Store) -> None:
    await see_through(store.aclose())
