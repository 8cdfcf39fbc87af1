"""The database: whether it can be used, what it needs, and what stands still in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.doctor.look import examined
from replan.cli.terminal.words import counted, secs, size

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.engine.procrastinate.queue import Worker
    from replan.store.inspection.health import Form, Health

_LITTLE, _VERY_LITTLE = 1_000_000_000, 100_000_000
"""Bytes that are free on a disk."""
_LARGE_LOG = 1_000_000_000
_AHEAD_SECS, _FAR_AHEAD_SECS = 1.0, 10.0
_LONG_TRANSACTION_SECS = 600.0


def place(settings: Settings, db: str | None) -> str | Path:
    """Where the database is."""
    from replan.wiring import database as named

    return named(db if db is not None else settings.database_service.connection_string)


def usable(findings: Iterable[Finding]) -> bool:
    """Whether it holds tasks, and to open it changes nothing in it."""
    by_name = {finding.name: finding for finding in findings if finding.name in ("store", "schema")}
    store, form = by_name.get("store"), by_name.get("schema")
    if store is None or form is None or store.state != "ok" or form.state == "problem":
        return False
    return bool(store.facts.get("tasks")) and form.facts["at"] >= form.facts["newest"]


def database(settings: Settings, db: str | None) -> Iterator[Finding]:
    """What is found in the database that tasks would be kept in."""
    import asyncio

    from replan.cli.doctor.standing import consumers, queue, standing

    where = place(settings, db)
    found = asyncio.run(examined(where))
    health = found.health
    yield _store(health)
    if health.form is not None:
        yield _form(health.form, health.shown)
    yield from _disk(health)
    yield from _damage(health)
    yield from _server(health)
    yield from _clocks(health, found.workers or [])
    if settings.engine.kind == "procrastinate" and isinstance(where, Path):
        yield Finding(
            "workers", "problem", "workers take tasks from a PostgreSQL database, and this is a SQLite file",
            '--db postgresql://HOST/DATABASE, or [engine] kind = "local"',
        )  # fmt: skip
    elif health.fault is None:
        yield from queue(found, expected=settings.engine.kind == "procrastinate")
    yield from standing(health)
    yield from consumers(health)
    older = health.form is not None and health.form.at < health.form.newest
    for unseen in health.unseen if health.fault is None else ():  # else it follows from that
        told = f"a part of it could not be looked at: {unseen}"
        if older:
            yield Finding("store", "note", told, "it can once the database has been brought forward")
        else:
            yield Finding("store", "problem", told)


def _store(health: Health) -> Finding:
    if health.fault is not None:
        return Finding("store", "problem", health.fault)
    if not health.there:
        if health.unwritable:
            return Finding("store", "problem", health.unwritable, health.to_write)
        return Finding("store", "ok", f"can be made: {health.shown} is not there yet")
    facts = {"tasks": health.tasks, "bytes": health.bytes, "free_bytes": health.free_bytes}
    if health.unwritable is not None:
        return Finding("store", "problem", f"cannot be written: {health.unwritable}", health.to_write, facts)
    if health.form is not None and health.form.at == 0:
        return Finding(
            "store", "ok", f"can be made: nothing of Replan's is in {health.shown} yet", facts=facts
        )
    from replan.store.inspection.health import MOST

    tasks = ""
    if health.tasks is not None:
        tasks = f"; {MOST} tasks or more" if health.tasks >= MOST else f"; {counted(health.tasks, 'task')}"
    taken = "" if health.bytes is None else f", {size(health.bytes)}"
    return Finding("store", "ok", f"can be written: {health.shown}{taken}{tasks}", facts=facts)


def _form(form: Form, shown: str) -> Finding:
    facts = {"at": form.at, "newest": form.newest, "needed": form.needed, "missing": list(form.missing)}
    if form.missing:
        found = f"schema {form.at} of {shown} is not whole: {', '.join(form.missing)} is missing"
        return Finding("schema", "problem", found, "restore it from a backup", facts)
    if form.needed > form.newest:
        found = f"schema {form.needed} was made by a newer Replan; this one knows {form.newest}"
        return Finding("schema", "problem", found, "upgrade Replan", facts)
    if form.at > form.newest:
        found = f"schema {form.at} of a newer Replan, which this one ({form.newest}) can work beside"
        return Finding("schema", "note", found, "upgrade Replan when you can", facts)
    if 0 < form.at < form.newest:
        found = f"schema {form.at} of an older Replan; {counted(form.newest - form.at, 'migration')} to come"
        todo = "back it up; the next command that opens it brings it forward"
        return Finding("schema", "note", found, todo, facts)
    return Finding("schema", "ok", f"schema {form.newest}", facts=facts)


def _disk(health: Health) -> Iterator[Finding]:
    if health.free_bytes is not None:
        free = f"{size(health.free_bytes)} free where {health.shown} is"
        facts = {"free_bytes": health.free_bytes}
        if health.free_bytes < _LITTLE:
            state = "problem" if health.free_bytes < _VERY_LITTLE else "note"
            yield Finding("disk", state, free, "free some space, or move the database", facts)  # type: ignore[arg-type]
        else:
            yield Finding("disk", "ok", free, facts=facts)
    if health.log_bytes is not None and health.log_bytes > _LARGE_LOG:
        yield Finding(
            "disk", "note", f"SQLite's own log beside the database has {size(health.log_bytes)}",
            "some process reads in it for very long: look which has the file open", {"log_bytes": health.log_bytes},
        )  # fmt: skip


def _damage(health: Health) -> Iterator[Finding]:
    for what in health.broken:
        yield Finding("integrity", "problem", what, "stop what writes to it, and restore it from a backup")
    if health.unchecked is not None:
        todo = f"sqlite3 {health.shown} 'PRAGMA quick_check' takes its time"
        yield Finding("integrity", "note", health.unchecked, todo)


def _server(health: Health) -> Iterator[Finding]:
    if health.connections is not None:
        taken, most = health.connections
        facts = {"open": taken, "most": most}
        if taken > 0.9 * most:
            yield Finding(
                "connections", "note", f"{taken} of the {most} that the server allows are taken",
                "raise max_connections there, or lower [database_service] max_connections", facts,
            )  # fmt: skip
    if (oldest := health.oldest_transaction_secs) is not None and oldest > _LONG_TRANSACTION_SECS:
        yield Finding(
            "transactions", "note", f"one has been open for {secs(oldest)}, and keeps the server from tidying up",
            "look in pg_stat_activity for xact_start, and end it", {"oldest_secs": oldest},
        )  # fmt: skip


def _clocks(health: Health, workers: list[Worker]) -> Iterator[Finding]:
    ahead = {f"{worker.name}'s": worker.ahead_secs for worker in workers if worker.alive}
    ahead["this machine's"] = health.clock_ahead_secs
    for whose, by in ahead.items():
        if by is None:
            continue
        facts = {"ahead_secs": by}
        if abs(by) < _AHEAD_SECS:
            if whose == "this machine's":
                yield Finding("clock", "ok", f"as the database's, to {abs(by):.2f} s", facts=facts)
            continue
        state = "problem" if abs(by) >= _FAR_AHEAD_SECS else "note"
        way = "ahead of" if by > 0 else "behind"
        yield Finding(
            "clock", state, f"{whose} is {secs(abs(by))} {way} the database's: time limits of tasks go by it",  # type: ignore[arg-type]
            "set both by the same time server", facts,
        )  # fmt: skip
