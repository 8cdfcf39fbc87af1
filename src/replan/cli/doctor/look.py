"""The look at a database, and at the queue in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replan.engine.procrastinate.queue import Line, Worker
    from replan.store.inspection.health import Health


@dataclass
class Examined:
    """A database, and the queue in it."""

    health: Health
    workers: list[Worker] | None = None
    lines: list[Line] = field(default_factory=list)
    oldest_secs: float | None = None


async def examined(where: str | Path) -> Examined:
    if isinstance(where, Path):
        from replan.store.inspection.sqlite import look_at_sqlite

        return Examined(look_at_sqlite(where))
    from replan.errors import InputError

    try:
        from replan.store.inspection.postgres import inspected, part
    except ImportError as error:
        raise InputError(
            f"a log in PostgreSQL needs its driver ({error.name or 'libpq'} is missing): pip install 'replan[postgres]'"
        ) from None
    from replan.engine.procrastinate.queue import lines_in, oldest_in, workers_in

    async with inspected(where) as (health, inspection):
        found = Examined(health)
        if inspection is None:
            return found

        async def look() -> None:
            if await inspection.has("worker"):
                found.workers = await workers_in(inspection.ask)
            if await inspection.has("procrastinate_jobs"):
                found.lines = await lines_in(inspection.ask)
                found.oldest_secs = await oldest_in(inspection.ask)

        await part(health, look)
        return found
