"""What tools from elsewhere cost, and what becomes of their faults.

    python -m bench.tools                        everything (some ten minutes)
    python -m bench.tools --part calls --only mcp-stdio --only openapi
    python -m bench.tools --part faults --json rows.json

calls: each source against the same thing called bare, with the protocol's or framework's own means. They take turns,
call by call for one call alone, go by go for 32 at once; so do the source in the catalogue, whole tasks of 200 parallel
steps that make the calls, and others who do the same. Each source has a process of its own, servers are processes of
their own on loopback. The tools add two numbers and count as `once`, those over MCP as reading.
start: a hundred MCP tools over five servers, started and listed side by side and one by one.
faults: the fault table of the tests, as numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.tools.measure import BARE, CATALOG, MEMORY, SOURCE, SQLITE, measured
from bench.tools.rows import ROWS

_VERSIONS = (
    "mcp",
    "httpx2",
    "grpcio",
    "uvicorn",
    "langchain-core",
    "langgraph",
    "pydantic-ai-slim",
    "openai-agents",
)


def calls(only: list[str], rounds: int) -> list[dict[str, Any]]:
    found = []
    for name, row in ROWS.items():
        if only and name not in only:
            continue
        if missing := [module for module in row.needs if not importlib.util.find_spec(module)]:
            print(f"skipped: {row.label}: {', '.join(missing)} is not installed", file=sys.stderr)
            continue
        command = [sys.executable, "-m", "bench.tools", "--serve", name, "--rounds", str(rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"FAILED: {row.label}: its process ended with {done.returncode}", file=sys.stderr)
            found.append({"label": row.label, "right": False})
            continue
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"measured: {row.label}", file=sys.stderr)
    if not importlib.util.find_spec("fastmcp"):
        print("skipped: Pydantic AI's MCP client: fastmcp is not installed", file=sys.stderr)
    _show([row for row in found if row.get("right", True)])
    return found


def _show(found: list[dict[str, Any]]) -> None:
    print(f"\n{'one call alone, ms':38}{'bare':>9}{'source':>9}{'added':>9}{'catalog':>9}{'ratio':>7}")
    for row in found:
        alone, added = row["alone"], row["added"]
        values = (alone[BARE], alone[SOURCE], added[SOURCE], added[CATALOG])
        cells = "".join(f"{value * 1000:9.3f}" for value in values)
        print(f"{row['label']:38}{cells}{alone[SOURCE] / alone[BARE]:7.2f}")
    print(
        f"\n{'32 at once, calls a second':38}{'bare':>9}{'source':>9}{'catalog':>9}{'task':>9}{'unkept':>9}"
        f"{'source':>8}{'task':>7}{'kept':>8}{'CPU bare':>10}{'source':>8}{'task':>7}"
    )
    print(f"{'':83}{'time to bare':>15}{'ms':>8}{'ms a call':>18}")
    for row in found:
        many, cpu = row["many"], row["cpu"]
        cells = "".join(f"{many[who]:9.0f}" for who in (BARE, SOURCE, CATALOG, SQLITE, MEMORY))
        kept = 1000 / many[SQLITE] - 1000 / many[SOURCE]
        used = f"{cpu[BARE] * 1000:10.3f}{cpu[SOURCE] * 1000:8.3f}{cpu[SQLITE] * 1000:7.3f}"
        print(
            f"{row['label']:38}{cells}{row['to_bare'][SOURCE]:8.2f}{row['to_bare'][SQLITE]:7.2f}{kept:8.3f}{used}"
        )
    print(f"\n{'others who do the same':71}{'ms alone':>9}{'added':>8}{'calls/s':>9}{'to bare':>9}{'CPU':>8}")
    for row in found:
        for who in row["many"]:
            if who in (BARE, SOURCE, CATALOG, SQLITE, MEMORY):
                continue
            one = (
                f"{row['alone'][who] * 1000:9.3f}{row['added'][who] * 1000:8.3f}"
                if who in row["alone"]
                else f"{'':17}"
            )
            print(
                f"{row['label']:33}{who:38}{one}{row['many'][who]:9.0f}{row['to_bare'][who]:9.2f}"
                f"{row['cpu'][who] * 1000:8.3f}"
            )


def _start() -> list[dict[str, Any]]:
    from bench.tools import mcp_start

    return mcp_start.main()


def _faults() -> list[dict[str, Any]]:
    from bench.tools import faults

    return faults.main()


def _installed(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is not installed"


def main() -> int:
    """1 if a row could not be measured, or a fault was not as asked."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.tools", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--part", choices=("calls", "start", "faults"), action="append", default=[])
    parser.add_argument(
        "--only", choices=ROWS, action="append", default=[], metavar="ROW", help=", ".join(ROWS)
    )
    parser.add_argument("--rounds", type=int, default=7, help="of 32 at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--serve", choices=ROWS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        print("\n" + json.dumps(asyncio.run(measured(ROWS[given.serve], given.rounds))))
        return 0
    machine = (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, SQLite {sqlite3.sqlite_version}"
    )
    print(machine)
    print(", ".join(map(_installed, _VERSIONS)))
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "calls": lambda: calls(given.only, given.rounds),
        "start": _start,
        "faults": _faults,
    }
    found: dict[str, Any] = {"machine": machine}
    wrong = False
    for name, part in parts.items():
        if not given.part or name in given.part:
            found[name] = part()
            wrong |= not all(row.get("right", True) for row in found[name])
            if given.json:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
