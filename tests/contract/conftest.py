"""What the contract suites share: every store that there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from replan.ports import Store
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.testing.store import MemoryStore

STORES: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: SqliteStore(folder / "log.db"),
    "sqlite-full": lambda folder: SqliteStore(folder / "log.db", synchronous="full"),
    "memory": lambda folder: MemoryStore(),
}


@pytest.fixture(params=[*STORES, "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        database = request.getfixturevalue("postgres_schema")
        opened: Store = PostgresStore(database)
        (tmp_path / "address").write_text(database)
    else:
        opened = STORES[request.param](tmp_path)
    yield opened
    await opened.aclose()
