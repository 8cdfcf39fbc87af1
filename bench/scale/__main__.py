"""How time and memory grow with size.

python -m bench.scale                everything (some ten minutes)
python -m bench.scale --only steps   plans of 1,000 to 10,000 steps: CPU time a step of each part
python -m bench.scale --only idle    1,000 and 10,000 waiting tasks: memory of each, beside LangGraph
python -m bench.scale --only log     one log of 100,000 events: appended, read, folded
python -m bench.scale --only store   a store of ten million events beside one of ten thousand, on both databases
python -m bench.scale --only workers tasks accepted and finished a second by 1, 2 and 4 workers
python -m bench.scale --only queue   a queue of 100,000 tasks beside one of a hundred
python -m bench.scale --only people  10,000 tasks that wait for a person
python -m bench.scale --only resume  a task of 10,000 events taken up again

Smaller: --events 1000000 --queued 10000 --waiting 1000 --tasks 200
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
from collections.abc import Callable

from bench.ending import clear_up_when_told
from bench.scale import idle, log, people, queue, resume, steps, store, throughput
from bench.scale.measure import Sizes

TOPICS: dict[str, Callable[[Sizes], None]] = {
    "steps": lambda _: steps.run(),
    "idle": lambda _: idle.run(),
    "log": lambda _: log.run(),
    "store": store.run,
    "workers": throughput.run,
    "queue": queue.run,
    "people": people.run,
    "resume": resume.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How time and memory grow with size.")
    parser.add_argument(
        "--only", action="append", choices=TOPICS, metavar="TOPIC", help=f"of {', '.join(TOPICS)}"
    )
    whole = Sizes()
    for name, size in whole._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    sizes = Sizes(*(getattr(given, name) for name in Sizes._fields))
    print(
        f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    clear_up_when_told()
    for name, run in TOPICS.items():
        if not given.only or name in given.only:
            run(sizes)


if __name__ == "__main__":
    main()
