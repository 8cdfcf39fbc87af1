"""A look at a PostgreSQL database, over one connection of its own that writes nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import psycopg
from psycopg.rows import dict_row

from replan.store.inspection.health import (
    GRACE_SECS,
    JUST_NOW_SECS,
    MOST,
    Form,
    Health,
    StillTask,
    tables_of,
)
from replan.store.postgres import schema
from replan.store.postgres.address import Address
from replan.store.postgres.faults import FAULTS, RIGHTS, translated
from replan.store.postgres.outbox import consumers_in
from replan.store.postgres.presence import ALIVE

ANSWER_SECS, LOCK_SECS = 8.0, 1.0
"""How long a statement may take, and of that wait for a lock."""
_LOOKED_THROUGH = 5_000
"""So many tasks that are not waiting, the oldest first, are looked through for such as nobody drives."""

_SERVER = """SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS closed,
 current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
 current_setting('max_connections')::int AS most, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS open,
 pg_database_size(current_database()) AS bytes"""
_TRANSACTION = """SELECT max(extract(epoch FROM now() - xact_start))::float8 AS secs FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8 AS now"
_TABLES = "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()"
_FORM = "SELECT to_jsonb(s) AS form FROM replan_schema s"
# "Schemas that are there" of a search_path are such as the user may use; which of them the tables are in, its first says.
_PLACE = """SELECT current_user AS who, current_schema() AS schema, current_setting('search_path') AS path, current_database() AS database,
 EXISTS (SELECT FROM pg_namespace WHERE nspname = %(own)s::text) AS there,
 has_database_privilege(current_database(), 'CREATE') AS may_make, coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_fill"""
_RIGHTS = """SELECT current_user AS who, has_table_privilege('task', 'SELECT') AND has_table_privilege('event', 'SELECT') AS reads,
 has_table_privilege('task', 'INSERT, UPDATE') AND has_table_privilege('event', 'INSERT') AS writes"""
_DAMAGE = """SELECT format('the index %s is not valid: REINDEX INDEX CONCURRENTLY %s', indexrelid::regclass, indexrelid::regclass) AS what
 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace
UNION ALL SELECT format('%s pages of the database had a wrong checksum', checksum_failures) FROM pg_stat_database
 WHERE datname = current_database() AND checksum_failures > 0"""
_COUNT = "SELECT count(*) AS tasks FROM (SELECT FROM task LIMIT %(most)s::int) t"
_JOB = """(SELECT CASE WHEN bool_or(status = 'todo') THEN 'waits' ELSE 'runs' END FROM procrastinate_jobs
 WHERE lock = t.task_id AND status IN ('todo', 'doing'))"""
# A task that is stored, and not claimed yet, stands in the queue of the process that has stored it.
_STILL = f"""SELECT * FROM (
 SELECT task_id, status, queue, refused, whose IS NOT NULL AS known, extract(epoch FROM now())::float8 - updated AS secs, {{job}} AS job
 FROM (SELECT *, coalesce(holder, (to_jsonb(task) ->> 'made_by')::int) AS whose FROM task WHERE NOT ended AND (status <> 'waiting' OR due OR last_signal > append_seq) ORDER BY id LIMIT {_LOOKED_THROUGH}) t
 WHERE whose IS NULL OR (queue IS NOT NULL AND holder IS NULL) OR NOT {ALIVE.format(holder="t.whose")}) s
 WHERE refused IS NOT NULL OR (queue IS NULL AND (known OR secs > {JUST_NOW_SECS}))
  OR (queue IS NOT NULL AND job IS DISTINCT FROM 'waits' AND secs > {GRACE_SECS}) LIMIT {MOST}"""

_GIVEN_AWAY = f"""SELECT task_id, status, extract(epoch FROM now())::float8 - updated AS secs FROM task
 WHERE given_away IS NOT NULL ORDER BY id LIMIT {MOST}"""
_MARKED = 8
"""The schema from which on tasks have that mark."""


class Inspection:
    """The connection, and what is asked over it."""

    def __init__(self, connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
        self._connection = connection

    async def ask(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        cursor = await self._connection.execute(sql.encode(), params)
        return await cursor.fetchall()

    async def has(self, table: str) -> bool:
        """Whether there is a table of that name."""
        sql = f"SELECT FROM ({_TABLES}) t WHERE name = %(name)s::text"
        return bool(await self.ask(sql, {"name": table}))


@contextlib.asynccontextmanager
async def inspected(dsn: str) -> AsyncIterator[tuple[Health, Inspection | None]]:
    """What can be seen of the database, and the connection for whoever looks at more in it, if there is one."""
    address = Address(dsn)
    health = Health(address.shown)
    given = {**address.given, "target_session_attrs": "any"}
    given["options"] = (
        f"{given['options']} -c statement_timeout={int(1000 * ANSWER_SECS)} -c lock_timeout={int(1000 * LOCK_SECS)}"
    )
    try:
        connection = await psycopg.AsyncConnection.connect(**given, autocommit=True, row_factory=dict_row)
    except FAULTS as error:
        health.fault = str(translated(error, address.shown))
        yield health, None
        return
    try:
        inspection = Inspection(connection)
        tables = await _look(health, inspection, address)
        yield health, inspection if "task" in tables and health.fault is None else None
    finally:
        connection.pgconn.finish()


async def part(health: Health, look: Callable[[], Awaitable[None]]) -> None:
    """One part of the look; one that fails leaves the others."""
    try:
        await look()
    except Exception as error:  # noqa: BLE001 - whatever it is, also of a row that somebody has spoilt
        said = " ".join(str(error).split()) or type(error).__name__
        if said not in health.unseen:
            health.unseen.append(said)


async def _look(health: Health, look: Inspection, address: Address) -> set[str]:
    tables: set[str] = set()

    async def server() -> None:
        (row,) = await look.ask(_SERVER)
        health.bytes, health.connections = row["bytes"], (row["open"], row["most"])
        if row["standby"] or row["closed"]:
            what = "is a standby" if row["standby"] else "takes reads only (default_transaction_read_only)"
            health.unwritable = f"the database {health.shown} {what}"
            health.to_write = "give the address of the primary"
        if row["version"] < schema.OLDEST * 10_000:
            health.fault = f"the database {health.shown} is PostgreSQL {row['version'] // 10_000}; {schema.OLDEST} or newer is needed"
        elif row["encoding"] != "UTF8":
            health.fault = (
                f"the database {health.shown} has the encoding {row['encoding']}; make one with UTF8"
            )

    async def clock() -> None:
        before = time.time()
        (row,) = await look.ask(_CLOCK)
        health.clock_ahead_secs = (before + time.time()) / 2 - row["now"]

    async def transaction() -> None:
        health.oldest_transaction_secs = (await look.ask(_TRANSACTION))[0]["secs"]

    async def form() -> None:
        tables.update(row["name"] for row in await look.ask(_TABLES))
        steps = schema.migrations()
        rows = await look.ask(_FORM) if "replan_schema" in tables else []
        at = needed = 0
        if rows:
            needed = rows[0]["form"]["version"]
            at = rows[0]["form"].get("newest") or needed
        missing = sorted(tables_of(steps, min(at, steps[-1][0])) - tables)
        if (fault := await _no_place(health.shown, look, address, empty=not tables)) is not None:
            health.fault = fault
        else:
            health.form = Form(at, steps[-1][0], needed, missing)

    await part(health, server)
    await part(health, clock)
    await part(health, form)
    await part(health, transaction)
    if "task" in tables and health.fault is None:
        await _look_at_tasks(health, look, tables)
    return tables


async def _no_place(shown: str, look: Inspection, address: Address, *, empty: bool) -> str | None:
    """Why there is no schema that the tables are in, or can be made in; None: there is one."""
    (at,) = await look.ask(_PLACE, {"own": address.schema})
    who, schema = at["who"], at["schema"]
    if schema is not None:
        if empty and not at["may_fill"]:
            return f"the user {who} may make no tables in the schema {schema} of {shown}: GRANT CREATE ON SCHEMA {schema} TO {who}"
        return None
    if address.schema is None:
        return f"no schema of search_path ({at['path']}) is in {shown}, or {who} may use none: make it (CREATE SCHEMA), or correct ?options="
    if at["there"]:
        return f"the user {who} may not use the schema {address.schema} of {shown}: {RIGHTS}"
    if not at["may_make"]:
        return f"the user {who} may make no schema in {shown}: GRANT CREATE ON DATABASE {at['database']} TO {who}"
    return None


async def _look_at_tasks(health: Health, look: Inspection, tables: set[str]) -> None:
    async def rights() -> None:
        (may,) = await look.ask(_RIGHTS)
        if not may["reads"]:
            health.fault = f"the user {may['who']} may not read the tables of {health.shown}: {RIGHTS}"
        elif health.unwritable is None and not may["writes"]:
            health.unwritable = f"the user {may['who']} of {health.shown} may only read its tables"
            health.to_write = "to look is enough for `tasks list`, `show`, `watch` and `result`; for more have its owner grant INSERT, UPDATE and DELETE on them"

    async def count() -> None:
        health.tasks = (await look.ask(_COUNT, {"most": MOST}))[0]["tasks"]

    async def damage() -> None:
        health.broken += [row["what"] for row in await look.ask(_DAMAGE)]

    async def still() -> None:
        job = _JOB if "procrastinate_jobs" in tables else "NULL"
        marked = health.form is not None and health.form.at >= _MARKED
        rows = await look.ask(_GIVEN_AWAY) if marked else []
        away = [StillTask(row["task_id"], row["status"], "given away", max(row["secs"], 0.0)) for row in rows]
        health.still += away
        known = {one.task_id for one in away}
        for row in await look.ask(_STILL.format(job=job)):
            if row["task_id"] not in known:
                health.still.append(_still(row))

    async def consumers() -> None:
        health.consumers = await consumers_in(look.ask)

    await part(health, rights)
    if health.fault is not None:
        return
    await part(health, count)
    await part(health, damage)
    if "worker" in tables:
        await part(health, still)
        if "outbox_consumer" in tables:
            await part(health, consumers)


def _still(row: Mapping[str, Any]) -> StillTask:
    secs = max(row["secs"], 0.0)
    if row["refused"] is not None:
        return StillTask(row["task_id"], row["status"], "given back", secs, row["refused"])
    if row["queue"] is not None:
        return StillTask(row["task_id"], row["status"], "lost", secs)
    return StillTask(
        row["task_id"], row["status"], "answered" if row["status"] == "waiting" else "interrupted", secs
    )
