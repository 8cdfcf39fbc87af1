"""Runs small programs for known faults of agent frameworks on the peers and on Replan, and prints one table.

python -m bench.conformance --setup              install the peers into .venv-conformance/
python -m bench.conformance                      every row on whoever is installed
python -m bench.conformance --row R1 --peer langgraph --peer replan
python -m bench.conformance --markdown docs      write docs/comparison.md and a page a row in docs/comparison/
python -m bench.conformance --row E1 --peer replan --markdown docs --keep      only what was run now is written anew
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.conformance import pages, table
from bench.conformance.peers import LOCKS, PEERS, set_up
from bench.conformance.rows import BY_KEY
from bench.conformance.running import Result, installed, results


def main() -> int:
    """0 if Replan passed every row that was run on it."""
    parser = argparse.ArgumentParser(
        prog="bench.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setup", nargs="*", choices=LOCKS, help="install the peers: all, or these")
    parser.add_argument("--peer", action="append", choices=[peer.key for peer in PEERS])
    parser.add_argument("--row", action="append", choices=list(BY_KEY))
    parser.add_argument("--markdown", type=Path, metavar="FOLDER", help="write the pages into this folder")
    parser.add_argument(
        "--keep", action="store_true", help="with --markdown: what is not run stays as written"
    )
    options = parser.parse_args()
    if options.setup is not None:
        set_up(options.setup or LOCKS)
        return 0
    rows = set(options.row or BY_KEY)
    found: list[Result] = []
    versions: dict[str, str] = {}
    for peer in PEERS:
        if options.peer and peer.key not in options.peer:
            continue
        there = installed(peer)
        if isinstance(there, str):
            print(f"{peer.label}: {there}", file=sys.stderr)
            continue
        versions[peer.label] = ", ".join(
            version if name == peer.key.replace("_", "-") else f"{name} {version}"
            for name, version in there.versions.items()
        )
        print(f"{peer.label}: {versions[peer.label]}", file=sys.stderr)
        for result in results(there, rows):
            found.append(result)
            print(
                f"{table.VERDICT[result.passed]:>8} {result.row:4} {table.line_of(result)}", file=sys.stderr
            )
    print(table.plain(found))
    if options.markdown:
        pages.write(options.markdown, found, versions, keep=options.keep)
    ours = [one for one in found if not one.peer.environment]
    passed = sum(one.passed is True for one in ours)
    print(f"\nReplan: {passed} of {len(ours)} programs right", file=sys.stderr)
    return int(passed < len(ours))


if __name__ == "__main__":
    sys.exit(main())
