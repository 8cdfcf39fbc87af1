"""Thousands of tasks while everything around them is killed, frozen, cut, filled and woken.

    python -m bench.chaos                       2,000 tasks, 131 blows, about ten minutes; a new seed each time
    python -m bench.chaos --seed 7 --keep       the same again; what was written is kept

Tasks have effects in a world outside, a server with a journal on disk that loses some questions and some answers.
Workers take them over PostgreSQL, some of them through a proxy. People hand in, cancel, agree, refuse, and settle doubts by
looking into the journal. At the end no task may be lost or stuck, no effect had twice, no log with a gap, and no success
without its effects. What a seed fixes are the tasks, the blows and their order, not how threads and processes take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import sys
import time

from bench.chaos.blows import SHARES
from bench.chaos.run import Outcome, Size, run
from bench.ending import clear_up_when_told


def main() -> None:
    parser = argparse.ArgumentParser(description="Chaos: tasks go on whatever befalls workers and database.")
    parser.add_argument("--seed", type=int, help="a number drawn by chance if left out")
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--blows", type=int, default=131)
    parser.add_argument("--secs", type=float, default=480.0, help="so long blows fall")
    parser.add_argument(
        "--only",
        action="append",
        choices=SHARES,
        metavar="KIND",
        help=f"blows of these kinds: {', '.join(SHARES)}",
    )
    parser.add_argument("--keep", action="store_true", help="keep journal, server's log and tracebacks")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    begun = time.monotonic()
    clear_up_when_told()
    print(f"seed {seed}; Python {platform.python_version()}, {os.cpu_count()} cores", flush=True)

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} s  {text}", flush=True)

    size = Size(given.tasks, given.blows, given.secs, tuple(given.only or ()))
    outcome = asyncio.run(run(size, seed, say, keep=given.keep))
    tell(outcome, seed)
    sys.exit(bool(outcome.found.wrong() or outcome.jobs_left))


def tell(outcome: Outcome, seed: int) -> None:
    found = outcome.found
    print(f"\nseed {seed}, {outcome.secs:.0f} s")
    for title, counts in (("tasks", found.statuses), ("blows", outcome.blows), ("people", outcome.did)):
        print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    print(f"effects {found.effects}, events {found.events}, tasks taken up again {found.takeovers}")
    print(f"lost {len(found.lost)}, stuck {len(found.stuck)}, effects twice {len(found.twice)}, gaps {len(found.gaps)}, "
          f"successes without their effects {len(found.hollow)}")  # fmt: skip
    for name, each in found.wrong().items():
        print(f"\n{name}: {len(each)}")
        for line in each[:20]:
            print(f"  {line}")
    if outcome.jobs_left:
        print(f"left in the queue: {outcome.jobs_left}")


if __name__ == "__main__":
    main()
