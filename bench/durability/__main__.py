"""What a step costs when all that it promises is on disk, on SQLite and on PostgreSQL, beside others.

    python -m bench.durability                   9 rounds of every row that is installed
    python -m bench.durability --setup           install Prefect, in an environment of its own, first
    python -m bench.durability --only replan --only langgraph --rounds 15

The graphs and the way of measuring are those of `bench.overhead`. Every commit is flushed to the disk before it is answered
(SQLite: WAL, full; PostgreSQL: fsync on, synchronous_commit on; read back), on the disk that the temporary folder is on.
What is on disk when: Replan has a `once` call's start there before the call, and its result before what depends on it.
LangGraph saves each superstep before the next (`durability="sync"`) and no start. DBOS stores each step's result before the
next. procrastinate stores each job, that it is taken, and that it is done. Prefect hands its states over to its server,
which writes them in its own time.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.durability import postgres as pg
from bench.durability.prefect_rows import LEVEL, prefect_row
from bench.rows import Layers, Ratios, Row, main

ROOT = Path(__file__).resolve().parents[2]
PREFECT = ROOT / ".venv-prefect"
_PYTHON = str(PREFECT / "bin" / "python")


def from_overhead(name: str, *arguments: str) -> Callable[[Layers, Path], object]:
    """A row of `bench.overhead`, which another environment cannot import."""

    def opened(layers: Layers, folder: Path) -> object:
        from bench import overhead

        return getattr(overhead, name)(*arguments)(layers, folder)

    return opened


SQLITE, POSTGRES = "wal/full", "fsync on/on"
ROWS = {
    "replan-sqlite": Row("Replan, SQLite", SQLITE, from_overhead("replan_row", "full")),
    "langgraph-sqlite": Row("LangGraph, SQLite saver in step", SQLITE, from_overhead("langgraph_row", "full", "sync"), "langgraph"),
    "dbos-sqlite": Row("DBOS, SQLite", SQLITE, from_overhead("dbos_row", "wal", "full"), "dbos"),
    "prefect-sqlite": Row("Prefect, SQLite", LEVEL, prefect_row("sqlite"), python=_PYTHON),
    "replan-postgres": Row("Replan, PostgreSQL", POSTGRES, pg.replan_row(by_worker=False), "psycopg"),
    "replan-worker": Row("Replan, PostgreSQL, by a worker", POSTGRES, pg.replan_row(by_worker=True), "procrastinate"),
    "procrastinate": Row("procrastinate, a job a step", POSTGRES, pg.procrastinate_row, "procrastinate"),
    "langgraph-postgres": Row("LangGraph, PostgreSQL saver in step", POSTGRES, pg.langgraph_row, "langgraph.checkpoint.postgres"),
    "dbos-postgres": Row("DBOS, PostgreSQL", POSTGRES, pg.dbos_row, "dbos"),
    "prefect-postgres": Row("Prefect, PostgreSQL", LEVEL, prefect_row("postgres"), python=_PYTHON),
}  # fmt: skip

RATIOS: Ratios = [
    ("replan-postgres", "langgraph-postgres", {"wide": 0.25, "chain": 0.4}),
    ("replan-postgres", "dbos-postgres", {"wide": 0.1, "chain": 0.25}),
    ("replan-postgres", "procrastinate", {}),
    ("replan-worker", "replan-postgres", {}),
    ("replan-worker", "procrastinate", {}),
    ("replan-postgres", "prefect-postgres", {}),
    ("replan-sqlite", "langgraph-sqlite", {}),
    ("replan-sqlite", "dbos-sqlite", {}),
    ("replan-sqlite", "prefect-sqlite", {}),
    ("replan-postgres", "replan-sqlite", {}),
]


def server() -> Callable[[str, Path], None]:
    """Start PostgreSQL, and give each row a database of its own."""
    sys.path.append(str(ROOT / "tests"))
    from postgres_server import PostgresServer

    made = PostgresServer(fsync=True)
    atexit.register(made.close)

    def prepare(name: str, folder: Path) -> None:
        database = f"{name.replace('-', '_')}_{folder.parent.name}".lower()
        made.sql(f"CREATE DATABASE {database}")
        (folder / "address").write_text(made.url(database))

    return prepare


def set_up() -> None:
    subprocess.run([sys.executable, "-m", "venv", PREFECT], check=True)
    pip = [_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "-r", str(ROOT / "locks/bench-prefect.txt")], check=True
    )


if __name__ == "__main__":
    if "--setup" in sys.argv:
        set_up()
    else:
        main(
            "bench.durability",
            ROWS,
            RATIOS,
            "What a step costs when everything is on disk.",
            rounds=9,
            prepare=server,
        )
