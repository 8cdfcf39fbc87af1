"""What every store promises of the list of tasks where it is narrowed to a tenant, a session, or both."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_store import add, steps

from replan.core.events import (
    AnyEvent,
    ForkMade,
    TaskCancelled,
    TaskFailed,
    TaskForked,
    TaskStarted,
    TaskSubmitted,
)
from replan.core.types import Failure
from replan.errors import TaskNotFound
from replan.ports import Store
from replan.store import schema
from replan.store.postgres.address import Address
from replan.store.postgres.line import Params, Row
from replan.store.postgres.store import PostgresStore
from replan.store.postgres.tenants import listing as postgres_listing
from replan.store.sqlite import SqliteStore
from replan.store.tenants import listing
from replan.testing.store import MemoryStore

pytestmark = pytest.mark.anyio

ENDS: dict[str, AnyEvent] = {
    "failed": TaskFailed(failure=Failure(kind="step", reason="it broke")),
    "cancelled": TaskCancelled(failure=Failure(kind="cancelled", reason="no")),
    "planning": TaskStarted(),
}


def asked(tenant: str = "", session: Any = None, text: str = "do it") -> TaskSubmitted:
    context = {} if session is None else {"session_id": session}
    return TaskSubmitted(description=text, context=context, tenant=tenant)


async def made(store: Store, task_id: str, tenant: str = "", session: Any = None, status: str = "") -> None:
    await store.create(task_id, asked(tenant, session), 1.0)
    if status:
        claim = await store.claim(task_id)
        await add(store, claim, ENDS[status])
        await store.release(claim)


async def forked(store: Store, fork_id: str, origin: str, at: int = 1) -> None:
    told = ForkMade(fork=fork_id, at=at)
    await store.fork(fork_id, TaskForked(origin=origin, at=at, root=origin), told, 5.0)


async def listed(store: Store, **narrowed: Any) -> list[str]:
    return [one.task_id for one in await store.list_tasks(**narrowed)]


async def test_a_summary_says_whose_task_it_is_and_of_which_session(store: Store) -> None:
    await made(store, "a", "acme", "s-1")
    await made(store, "b")

    of = {one.task_id: (one.tenant, one.session) for one in await store.list_tasks()}
    assert of == {"a": ("acme", "s-1"), "b": ("", "")}
    one = await store.summary("a")
    assert (one.tenant, one.session, one.rewritten) == ("acme", "s-1", 0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("日本 🦀", "日本 🦀", id="any text"),
        pytest.param("x" * 200, "x" * 200, id="as long as may be"),
        pytest.param("x" * 201, "", id="too long for an index"),
        pytest.param("a\0b", "", id="what not every store can hold"),
        pytest.param(17, "", id="no text"),
        pytest.param({"a": 1}, "", id="an object"),
        pytest.param("", "", id="nothing"),
    ],
)
async def test_a_session_is_a_text_that_an_index_can_hold(store: Store, given: Any, kept: str) -> None:
    await made(store, "a", "acme", given)

    assert (await store.summary("a")).session == kept
    assert (await store.read("a"))[0].event == asked("acme", given)
    if isinstance(given, str) and given:
        assert await listed(store, session=given) == (["a"] if kept else [])


async def test_the_list_has_the_tasks_of_one_tenant_page_by_page(store: Store) -> None:
    for n in range(6):
        await made(store, f"a{n}", "acme")
        await made(store, f"b{n}", "bolt")

    assert await listed(store, tenant="acme", limit=4) == ["a5", "a4", "a3", "a2"]
    assert await listed(store, tenant="acme", limit=4, before="a2") == ["a1", "a0"]
    assert await listed(store, tenant="nobody") == []
    assert await listed(store, tenant="") == []
    assert len(await listed(store)) == 12


async def test_a_page_does_not_go_on_from_what_another_tenant_has(store: Store) -> None:
    await made(store, "a", "acme")
    await made(store, "b", "bolt")

    for task_id in ("b", "nowhere"):
        with pytest.raises(TaskNotFound, match=task_id):
            await store.list_tasks(tenant="acme", before=task_id)
    for odd in ("a\0", "\ud800", "💥" * 300):
        assert await listed(store, tenant=odd) == await listed(store, session=odd) == []
        with pytest.raises(TaskNotFound):
            await store.list_tasks(before=odd)
    assert await listed(store, before="b") == ["a"]


async def test_a_fork_is_its_origins_tenants_and_of_its_session(store: Store) -> None:
    await made(store, "t", "acme", "s")
    await forked(store, "f", "t")
    claim = await store.claim("f")
    await add(store, claim, *steps(1, 2))
    await forked(store, "g", "f", 3)

    assert await listed(store, tenant="acme") == ["g", "f", "t"]
    assert await listed(store, tenant="acme", session="s") == ["g", "f", "t"]


async def test_the_unfinished_tasks_of_a_tenant_are_counted(store: Store) -> None:
    for n, status in enumerate(["", "failed", "planning", "cancelled", "planning"]):
        await made(store, f"a{n}", "acme", status=status)
        await made(store, f"x{n}", status=status)
    await forked(store, "f", "a0")

    assert await store.count_tasks("acme") == 6
    assert await store.count_tasks("acme", unfinished=True) == 4
    assert await store.count_tasks("", unfinished=True) == 3
    assert await store.count_tasks("bolt", unfinished=True) == 0
    assert await store.count_tasks() == 11
    assert await store.count_tasks(unfinished=True) == 7


class WithoutSession:
    """Takes the session out, as what turned out to be a secret."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        return data

    def event(self, event: AnyEvent) -> AnyEvent:
        if isinstance(event, TaskSubmitted):
            return event.model_copy(update={"context": {"session_id": "***"}, "description": "***"})
        return event


async def test_what_is_redacted_is_in_the_list_no_more_of_forks_neither(store: Store) -> None:
    await made(store, "t", "acme", "secret")
    await forked(store, "f", "t")
    await made(store, "u", "acme", "secret")

    await store.redact(await store.claim("t"), WithoutSession())

    assert await listed(store, session="secret") == ["u"]
    assert await listed(store, session="***", tenant="acme") == ["f", "t"]
    assert {one.description for one in await store.list_tasks(session="***")} == {"***"}


SOME = st.sampled_from
COUNT = itertools.count()
TASK = st.tuples(SOME(["", "acme", "bolt"]), SOME([None, "s", "t"]), SOME(["", "failed", "planning"]))
STATUSES = st.lists(SOME(["queued", "failed", "planning", "succeeded", "no such"]), max_size=3)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("databases")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tasks=st.lists(TASK, max_size=12),
    tenant=SOME([None, "", "acme", "bolt"]),
    session=SOME([None, "s", "t"]),
    status=STATUSES,
    limit=st.integers(0, 5),
)
async def test_pages_come_to_what_a_plain_filter_gives(
    request: pytest.FixtureRequest,
    databases: Path,
    kind: str,
    tasks: list[tuple[str, str | None, str]],
    tenant: str | None,
    session: str | None,
    status: Sequence[str],
    limit: int,
) -> None:
    if kind == "postgres":
        store: Store = PostgresStore(request.getfixturevalue("new_postgres_schema")())
    else:
        store = SqliteStore(databases / f"{next(COUNT)}.db")
    plain = MemoryStore()
    narrowed = {"tenant": tenant, "session": session, "status": status}
    try:
        for each in (store, plain):
            for n, task in enumerate(tasks):
                await made(each, f"t{n}", *task)
        wanted = await listed(plain, **narrowed)
        assert await listed(store, **narrowed) == wanted
        assert await listed(store, **narrowed, limit=limit) == wanted[:limit]
        found, before = list[str](), None
        while some := await listed(store, **narrowed, limit=limit or 1, before=before):
            found, before = [*found, *some], some[-1]
        assert found == wanted
    finally:
        await store.aclose()


# ── the rows of others ──

CASES = [
    pytest.param(
        {"tenant": tenant, "session": session, "status": status},
        id="-".join((tenant or "all", session or "any", *status)),
    )
    for tenant in ("small", "large", None)
    for session in (None, "s")
    for status in ((), ("failed",), ("failed", "queued", "waiting"))
]
"""The small tenant's tasks are older than all of the large one's, where nearly all have one status."""
MANY, FEW = 10_000, 5


def pages(narrowed: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**narrowed, "limit": 3, "before": before} for before in (None, "small2")]


@pytest.fixture(scope="module")
def crowded(databases: Path) -> Path:
    path = databases / "crowded"
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path)
        tasks = [(f"small{n}", "small", "s", "failed") for n in range(FEW)]
        tasks += [
            (f"large{n}", "large", "" if n % 100 else "s", "failed" if n % 50 == 0 else "succeeded")
            for n in range(MANY)
        ]
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO task (task_id, tenant, session, status, request, description, created) VALUES (?, ?, ?, ?, '', '', 1)",
            tasks,
        )
        db.execute("INSERT INTO event SELECT id, 1, 1, 0, 'task_submitted', '{}' FROM task")
        db.execute("COMMIT")
        db.execute("ANALYZE")
    return path


@pytest.mark.parametrize("narrowed", CASES)
def test_a_page_reads_no_more_than_its_rows_in_sqlite(crowded: Path, narrowed: dict[str, Any]) -> None:
    of_all = narrowed["tenant"] is None and narrowed["session"]  # then all that the session has
    most = 5_000 if of_all else 1_500
    with contextlib.closing(schema.connect(crowded)) as db:
        for page in pages(narrowed):
            if page["before"] and narrowed["tenant"] == "large":
                continue
            took = 0

            def count() -> None:
                nonlocal took
                took += 10

            db.set_progress_handler(count, 10)
            found = listing.rows(db, **page)
            assert took < most
            assert len(found) == (2 if page["before"] else 3)


class Explaining:
    """A line that has each statement explained as it runs, and keeps what that reads beside the rows that it gives."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.read = 0

    async def ask(self, statement: str, params: Params | None = None, **more: Any) -> list[Row]:
        plan = self._connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params).fetchone()[0]
        self.read += sum(map(self._rows, plan if isinstance(plan, list) else json.loads(plan)))
        rows: list[Row] = self._connection.execute(statement, params).fetchall()
        return rows

    def _rows(self, node: dict[str, Any]) -> int:
        node = node.get("Plan", node)
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        return int(own) + sum(map(self._rows, node.get("Plans", ())))


@pytest.fixture(scope="module")
def crowd(new_postgres_schema: Any) -> str:
    address: str = new_postgres_schema()
    asyncio.run(PostgresStore(address).aclose())
    with psycopg.connect(**Address(address).given, autocommit=True) as db:
        db.execute(
            "INSERT INTO task (task_id, tenant, session, status, ended, request, description, created, updated, last_seq, epoch) "
            f"SELECT 'small' || n, 'small', 's', 'failed', true, '', '\"\"', 1, 1, 1, 1 FROM generate_series(0, {FEW - 1}) n"
        )
        db.execute(
            "INSERT INTO task (task_id, tenant, session, status, ended, request, description, created, updated, last_seq, epoch) "
            "SELECT 'large' || n, 'large', CASE WHEN n % 100 = 0 THEN 's' ELSE '' END, CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'succeeded' END, "
            f"true, '', '\"\"', 1, 1, 1, 1 FROM generate_series(0, {MANY - 1}) n"
        )
        db.execute("VACUUM ANALYZE task")
    return address


@pytest.mark.parametrize("narrowed", CASES)
async def test_a_page_reads_no_more_than_its_rows_in_postgresql(crowd: str, narrowed: dict[str, Any]) -> None:
    most = 150 if narrowed["tenant"] is None and narrowed["session"] else 40
    with psycopg.connect(**Address(crowd).given, autocommit=True) as db:
        for page in pages(narrowed):
            if page["before"] and narrowed["tenant"] == "large":
                continue
            line: Any = Explaining(db)
            found = await postgres_listing.rows(line, **page)
            assert line.read < most
            assert len(found) == (2 if page["before"] else 3)


# ── releases before there were tenants ──

AS_BEFORE = (
    "INSERT INTO task (task_id, request, status, description, created, epoch, parent, shared, family) "
    "SELECT '{name}', 'ab', 'queued', '\"do it\"', 9.0, 5, {origin}"
)


async def test_a_database_of_before_there_were_tenants_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    before = [step for step in schema.migrations() if step[0] <= 10]
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path, steps=before)
        db.execute(AS_BEFORE.format(name="old", origin="NULL, 0, NULL"))
        db.execute(
            "INSERT INTO event SELECT id, 1, 9.0, 0, 'task_submitted', '{\"description\": \"x\"}' FROM task"
        )

    store = SqliteStore(path)
    try:
        assert [(one.task_id, one.tenant, one.session) for one in await store.list_tasks()] == [
            ("old", "", "")
        ]
        assert await listed(store, tenant="") == ["old"]
        assert await listed(store, tenant="acme") == []
        await made(store, "new", "acme", "s")
        assert await listed(store, tenant="acme", session="s") == ["new"]
    finally:
        await store.aclose()


async def test_what_an_earlier_release_forks_beside_this_one_is_the_same_tenants_in_sqlite(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "log.db")
    try:
        older = sqlite3.connect(tmp_path / "log.db", isolation_level=None)  # knows no tenants
        await made(store, "t", "acme", "s")
        origin = "id, 1, id FROM task WHERE task_id = 't'"
        older.execute(AS_BEFORE.format(name="f", origin=origin))
        older.execute(
            "INSERT INTO event SELECT id, 2, 9.0, 0, 'task_forked', '{}' FROM task WHERE task_id = 'f'"
        )
        older.execute(AS_BEFORE.format(name="own", origin="NULL, 0, NULL"))
        older.execute(
            "INSERT INTO event SELECT id, 1, 9.0, 0, 'task_submitted', '{}' FROM task WHERE task_id = 'own'"
        )
        older.close()

        assert await listed(store, tenant="acme", session="s") == ["f", "t"]
        assert await listed(store, tenant="") == ["own"]
    finally:
        await store.aclose()


async def test_what_an_earlier_release_forks_beside_this_one_is_the_same_tenants_in_postgresql(
    postgres_schema: str,
) -> None:
    store = PostgresStore(postgres_schema)
    try:
        await made(store, "t", "acme", "s")
        columns = "updated, last_seq, parent, shared, family)"
        with psycopg.connect(**Address(postgres_schema).given, autocommit=True) as older:
            statement = AS_BEFORE.replace("parent, shared, family)", columns)
            origin = "9.0, 2, id, 1, id FROM task WHERE task_id = 't'"
            older.execute(statement.format(name="f", origin=origin).encode())
            own = "9.0, 1, NULL::bigint, 0, NULL::bigint"
            older.execute(statement.format(name="own", origin=own).encode())

        assert await listed(store, tenant="acme", session="s") == ["f", "t"]
        assert await listed(store, tenant="") == ["own"]
    finally:
        await store.aclose()
