"""The program that says for a worker that it lives, while the worker cannot. Started by `busy`, by its path, without Replan.

A tool that holds the interpreter (the GIL) lets no thread of its process run, so that nothing there can send a heartbeat. This
program reads a sign of life every now and then; where none comes, and the worker is seen to compute, it sends the heartbeats.
One that is stopped, waits for something, or is gone is not seen to compute, and counts as gone as ever.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

_STOPPED = "TtZXx"
"""States of a process that is stopped, traced, or gone."""
_ANSWER_SECS = 20
"""The database has to answer by then; else this program ends, and is started anew."""


def main() -> None:
    owner = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the worker, whose end ends this
    said, data = b"", b""
    while b"\n" not in said:
        if not (data := os.read(0, 65536)):
            return
        said += data
    given: dict[str, Any] = json.loads(said.partition(b"\n")[0])
    sys.path[:] = given["path"]
    every, most = float(given["every"]), float(given["most"])
    connection, heard, before = None, time.monotonic(), computed(owner)
    while os.getppid() == owner:
        if select.select([0], [], [], every)[0]:
            if not os.read(0, 65536):
                return
            if connection is not None:
                connection.close()
            connection, heard, before = None, time.monotonic(), computed(owner)
            continue
        now = computed(owner)
        if now is not None and before is not None and now > before and time.monotonic() - heard < most:
            signal.alarm(_ANSWER_SECS)
            with contextlib.suppress(Exception):  # the next time
                if connection is None or connection.closed:
                    connection = connected(given["database"])
                connection.execute(given["statement"], given["values"])
            signal.alarm(0)
        before = now


def connected(database: dict[str, Any]) -> Any:
    import psycopg  # only where it is needed: a worker that is well costs no memory for it

    return psycopg.connect(**database, autocommit=True)


def computed(process: int) -> int | None:
    """How much time the processors have spent on it; None: it is stopped or gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _STOPPED else int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    main()
    sys.exit(0)
