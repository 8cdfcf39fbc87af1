"""How time and memory grow with size.

python -m bench.scale                everything (some ten minutes)
python -m bench.scale --only steps   plans of 1,000 to 10,000 steps: CPU time a step of each part
python -m bench.scale --only idle    1,000 and 10,000 waiting tasks: memory of each, beside LangGraph
python -m bench.scale --only log     one log of 100,000 events: appended, read, folded
python -m bench.scale --only store   a store of a million events beside one of ten thousand
"""

from __future__ import annotations

import argparse
import platform
import sqlite3

from bench.scale import idle, log, steps, store

TOPICS = {"steps": steps.run, "idle": idle.run, "log": log.run, "store": store.run}


def main() -> None:
    parser = argparse.ArgumentParser(description="How time and memory grow with size.")
    parser.add_argument("--only", choices=TOPICS, metavar="TOPIC", help=f"one of {', '.join(TOPICS)}")
    only = parser.parse_args().only
    print(f"Python {platform.python_version()}, {platform.machine()}, SQLite {sqlite3.sqlite_version}")
    for name, run in TOPICS.items():
        if only in (None, name):
            run()


if __name__ == "__main__":
    main()
