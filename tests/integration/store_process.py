"""Another process that uses a store, for the tests of what several do with one file.

`store_process.py WHAT DATABASE ARGS…` tells what it did in lines of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from replan.core.events import StepReady, TaskCompleted, TaskSubmitted
from replan.errors import StoreError, StoreFull, TaskHeld
from replan.store import schema
from replan.store.sqlite import SqliteStore


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def told() -> None:
    """Wait for a line, or for the end of the input."""
    sys.stdin.readline()


async def main(what: str, path: Path, args: list[str]) -> None:
    match what:
        case "open":
            say("ready")
            told()
            store = SqliteStore(path)
            say("open")
            told()
            await store.aclose()
        case "open-unprivileged":
            schema.migrations()  # while the interpreter's own files can be read
            if os.geteuid() == 0:  # nothing is read-only for root
                os.setgid(65534)
                os.setuid(65534)
            try:
                SqliteStore(path)
            except StoreError as error:
                say({"error": type(error).__name__, "text": str(error)})
        case "claim":
            await SqliteStore(path).claim(args[0])
            say("claimed")
            told()
        case "fork":
            await SqliteStore(path).claim(args[0])
            lives, tell = os.pipe()
            if os.fork() == 0:
                os.write(tell, b".")  # what is done after a fork has been done
                os.close(1)
                os.read(0, 1)  # lives until the test has ended, whatever becomes of its parent
                os._exit(0)
            os.read(lives, 1)
            say("claimed")
            told()
        case "race":
            store = SqliteStore(path)
            say("ready")
            told()
            won = []
            for task_id in args:
                try:
                    won.append((await store.claim(task_id)).task_id)
                except TaskHeld:
                    continue
            say(won)
            told()
        case "write":
            store = SqliteStore(path)
            claim = await store.claim(args[0])
            for n in range(int(args[1])):
                await store.append(claim, [StepReady(step_id=f"s{n}")], ts=2.0, round=1)
            await store.append(claim, [TaskCompleted()], ts=2.0, round=1)
            await store.aclose()
            say("written")
        case "full":
            await full(path)


async def full(path: Path) -> None:
    """Files may not grow over a limit, as on a full disk; then they may again."""
    import resource

    store = SqliteStore(path)
    await store.create("t", TaskSubmitted(description="do it"), 1.0)
    claim = await store.claim("t")
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    found: Exception | None = None
    written = 0
    later = None
    for n in range(1000):
        big = store.append(claim, [StepReady(step_id=f"{n}-" + "x" * 10_000)], ts=2.0, round=1)
        later = store.append(claim, [StepReady(step_id="small")], ts=2.0, round=1)
        try:
            await big
            await later
            written += 2
        except StoreFull as error:
            found = error
            break
    after = None
    try:
        assert later is not None
        await later
    except StoreError as error:
        after = type(error).__name__
    records = await store.read("t")
    with contextlib.suppress(StoreError):
        await store.release(claim)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    again = await store.claim("t")
    await store.append(again, [TaskCompleted()], ts=3.0, round=1)
    await store.aclose()
    say(
        {
            "error": type(found).__name__,
            "says": "free some space, then resume" in str(found),
            "after": after,
            "read": len(records) >= written + 1 > 1,
            "gap_free": [record.seq for record in records] == list(range(1, len(records) + 1)),
            "again": True,
        }
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
