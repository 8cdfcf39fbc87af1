"""Calls that are lost when an endpoint fails under load, how long the switch takes, and a Consul that flaps.

    python -m bench.failover                 everything, about four minutes
    python -m bench.failover --flap-secs 10  a shorter flapping

Twenty callers ask again and again. `lost`: calls that ended with an error. `quiet`: the longest time after the blow in which nobody was
answered. `longest`: the longest call around it. `at once`: how many questions were in the endpoint, at most, when it had come back and
had not answered yet: one tries, the others wait for how that ends. Exit code 1 if a call was lost, or more than one tried.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))


def main() -> None:
    from bench.failover.cases import all_cases

    parser = argparse.ArgumentParser(description="Failover of endpoints, and a registry that flaps.")
    parser.add_argument("--callers", type=int, default=20)
    parser.add_argument("--flap-secs", type=float, default=60.0)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {given.callers} callers"
    )
    print("| | calls | lost | quiet, s | longest, s | at once |")
    print("| --- | --- | --- | --- | --- | --- |")
    bad = False
    for name, case in all_cases(given.flap_secs):
        begun = time.monotonic()
        row = asyncio.run(case(given.callers))
        if row is None:
            print(f"| {name} | not tried: no Consul agent is here | | | | |")
            continue
        tried = "" if row.at_once is None else str(row.at_once)
        print(
            f"| {name} | {len(row.seen.calls):,} | {len(row.seen.lost)} | {row.quiet:.3f} | {row.longest:.3f} | {tried} |",
            flush=True,
        )
        for error in sorted(set(row.seen.lost))[:3]:
            print(f"  lost: {error}")
        bad = bad or bool(row.seen.lost) or (row.at_once or 0) > 1
        print(f"  ({time.monotonic() - begun:.0f} s)", file=sys.stderr)
    sys.exit(bad)


if __name__ == "__main__":
    main()
