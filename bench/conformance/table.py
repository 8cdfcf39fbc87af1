"""The one table, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bench.conformance.rows import ROWS
from bench.conformance.running import Result

VERDICT = {True: "pass", False: "FAIL", None: "not run"}


def line_of(result: Result) -> str:
    option = f" with {result.option}" if result.option else ""
    return f"{result.peer.label}{option}: {result.said}"


def plain(found: Sequence[Result]) -> str:
    lines: list[str] = []
    for row in ROWS:
        of_row = [one for one in found if one.row == row.key]
        if not of_row:
            continue
        lines += ["", f"{row.ids}  {row.program}", f"{'':9}right: {row.right}"]
        lines += [f"{VERDICT[one.passed]:>8} {line_of(one)}" for one in of_row]
    return "\n".join(lines)
