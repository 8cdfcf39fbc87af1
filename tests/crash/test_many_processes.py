"""Many processes submit and run tasks in one database at once: nothing is lost, and nobody is sent away."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TASKS = 3


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.prove)])
@pytest.mark.parametrize("new", [True, False], ids=["into a file that is not there yet", "into one that is"])
def test_processes_that_write_at_once_all_finish_their_tasks(tmp_path: Path, count: int, new: bool) -> None:
    database, folder = tmp_path / "log.db", tmp_path / "done"
    folder.mkdir()
    names = [f"p{n}" for n in range(count)]
    if not new:
        run(database, folder, "before")
    run(database, folder, *names)
    if not new:
        names.append("before")
    statuses = {}
    for name in names:
        statuses |= json.loads((folder / f"{name}.json").read_text())
    assert statuses == {f"{name}-{k}": "succeeded" for name in names for k in range(TASKS)}

    made = {path.stem: path.read_text() for path in folder.glob("*.txt")}
    steps = [f"{name}-{k}-{step}" for name in names for k in range(TASKS) for step in (0, 1, 2, "last")]
    assert made == dict.fromkeys(steps, "x"), "each effect once"
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        logs = db.execute(
            "SELECT task_id, count(*), max(seq), sum(events.type = 'task_completed') FROM events JOIN task ON id = task GROUP BY task"
        ).fetchall()
    assert len(logs) == len(names) * TASKS
    assert all(events == last and ends == 1 for _, events, last, ends in logs), "no log has a gap"


def run(database: Path, folder: Path, *names: str) -> None:
    """One process for each name, all at once, to their ends."""
    command = [sys.executable, str(HERE / "one_of_many.py"), str(database), str(folder), str(TASKS), *names]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True, timeout=500)
    assert "database is locked" not in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
