"""The process that statements run in: it may be ended at any time, with all that they hold.

Standard input: what it is for, then one request a line. Each is answered by one line, after a line that says so where a
change is about to be committed.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replan.errors import ToolCallError
from replan.tools.functions.output import to_plain

IDLE_SECS = 300.0
IDLE_CODE = 75
"""The exit code of a worker that nobody has asked anything for a while."""
_BESIDE_BYTES = 256 * 2**20
"""What Python and the database need besides the memory that statements may use."""


def serve(order: dict[str, Any]) -> None:
    """Answer requests until standard input ends, which it does with the process that asks."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    _limit(order["memory_bytes"])
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            requests.put(json.loads(line))
        os._exit(0)  # also in the middle of a statement: nobody waits for it any more

    threading.Thread(target=listen, daemon=True).start()
    _write(answers, {"ready": True})
    while True:
        try:
            request = requests.get(timeout=IDLE_SECS)
        except queue.Empty:
            os._exit(IDLE_CODE)
        _write(answers, _answer(order, request, lambda: _write(answers, {"committing": True})))


def _answer(order: dict[str, Any], request: dict[str, Any], committing: Callable[[], None]) -> dict[str, Any]:
    try:
        database = _database(order, request["secs"])
        given = request["given"]
        if request["what"] == "query":
            value: Any = database.query(*given)
        elif request["what"] == "execute":
            value = database.execute(*given, committing)
        else:
            value = database.tables()
        return {"value": to_plain(value)}
    except ToolCallError as error:
        return {"error": str(error), "kind": error.kind, "happened": error.happened}
    except MemoryError:
        return {"error": "", "kind": "memory", "happened": "no"}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"error": f"{type(error).__name__}: {error}", "kind": "tool", "happened": "unknown"}


def _database(order: dict[str, Any], secs: float) -> Any:
    path, most = order["path"], order["most_bytes"]
    if order["kind"] == "sqlite":
        from replan.tools.kit.databases.sqlite_file import SqliteFile

        return SqliteFile(
            Path(path), timeout_secs=secs, most_bytes=most, remember_keys=order["remember_keys"]
        )
    from replan.tools.kit.databases.duckdb_files import DuckdbFile, FolderOfData
    from replan.tools.kit.folders.rooted import Root

    if order["kind"] == "duckdb":
        return DuckdbFile(Path(path), timeout_secs=secs, most_bytes=most)
    return FolderOfData(Root(path), timeout_secs=secs, most_bytes=most)


def _limit(memory_bytes: int) -> None:
    try:
        import resource
    except ModuleNotFoundError:  # no POSIX: the database's own limit is all there is
        return
    for name, most in (
        ("RLIMIT_DATA", memory_bytes + _BESIDE_BYTES),
        ("RLIMIT_AS", memory_bytes + 8 * _BESIDE_BYTES),
        ("RLIMIT_CORE", 0),
    ):
        limit = getattr(resource, name, None)
        if limit is not None:
            hard = resource.getrlimit(limit)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(limit, (most, hard))


def _write(file: int, said: dict[str, Any]) -> None:
    data = json.dumps(said).encode() + b"\n"
    while data:
        data = data[os.write(file, data) :]
