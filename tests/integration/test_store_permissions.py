"""Who may read what the store keeps: its owner alone."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from replan.core.events import TaskSubmitted
from replan.store.sqlite import SqliteStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions"),
]


@pytest.fixture(autouse=True)
def open_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_of(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.rglob("*") if path.is_file()}


async def test_a_new_database_and_all_beside_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "replan"
    store = SqliteStore(folder / "replan.db")
    try:
        await store.create("t1", TaskSubmitted(description="x"), 1.0)
        assert mode(folder) == 0o700
        found = files_of(folder)
        assert {"replan.db", "replan.db-wal", "replan.db-shm"} < found.keys()  # and the lock of this process
        assert set(found.values()) == {0o600}
    finally:
        await store.aclose()


async def test_a_folder_of_the_users_stays_as_it_is_and_the_files_are_closed(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    store = SqliteStore(shared / "own.db")
    await store.aclose()
    assert mode(shared) == 0o755
    assert set(files_of(shared).values()) == {0o600}


async def test_a_database_of_an_earlier_release_is_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    store = SqliteStore(path)
    await store.create("t1", TaskSubmitted(description="x"), 1.0)
    await store.aclose()
    path.chmod(0o644)
    store = SqliteStore(path)
    try:
        assert (mode(path), (await store.read("t1"))[0].type) == (0o600, "task_submitted")
    finally:
        await store.aclose()


async def test_a_database_that_others_may_only_read_stays_unwritable(tmp_path: Path) -> None:
    path = tmp_path / "ro.db"
    store = SqliteStore(path)
    await store.aclose()
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        pytest.skip("run as root, who may write everything")
    with pytest.raises(Exception, match="read-only"):
        SqliteStore(path)


async def test_a_database_that_may_not_be_read_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "closed.db"
    store = SqliteStore(path)
    await store.aclose()
    path.chmod(0o000)
    if os.access(path, os.R_OK):
        pytest.skip("run as root, who may read everything")
    with pytest.raises(Exception, match="may not be read by you"):
        SqliteStore(path)
