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
    if not new:
        subprocess.run(
            _command(database, folder, "before"), input="go\n", text=True, check=True, capture_output=True
        )
    processes = [
        subprocess.Popen(
            _command(database, folder, f"p{n}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for n in range(count)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=500) for process in processes]
    assert [error for _, error in told if "database is locked" in error or "Traceback" in error] == []
    statuses = {task: status for out, _ in told for task, status in json.loads(out).items()}
    assert statuses == {f"p{n}-{k}": "succeeded" for n in range(count) for k in range(TASKS)}

    made = {path.stem: path.read_text() for path in folder.iterdir()}
    names = [*(f"p{n}" for n in range(count)), *(() if new else ("before",))]
    steps = [f"{name}-{k}-{step}" for name in names for k in range(TASKS) for step in (0, 1, 2, "last")]
    assert made == dict.fromkeys(steps, "x"), "each effect once"
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        logs = db.execute(
            "SELECT task_id, count(*), max(seq), sum(events.type = 'task_completed') FROM events JOIN task ON id = task GROUP BY task"
        ).fetchall()
    assert len(logs) == len(names) * TASKS
    assert all(events == last and ends == 1 for _, events, last, ends in logs), "no log has a gap"


def _command(database: Path, folder: Path, name: str) -> list[str]:
    return [sys.executable, str(HERE / "one_of_many.py"), str(database), str(folder), name, str(TASKS)]
