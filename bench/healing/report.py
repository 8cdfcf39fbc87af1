"""Rows as a table and as counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.healing.measure import Row

HEAD = f"{'':12}{'outcome':38}{'right':>6}{'plan':>6}{'rounds':>7}{'models':>7}{'tools':>6}{'s':>6}{'CPU s':>7}  what was done"


def line(row: Row) -> str:
    """One run in one line; a second one for what went wrong."""
    done = ", ".join(row.rungs) or ("nothing" if row.met else "no call failed")
    told = (
        f"{row.case:12}{row.status:38}{'yes' if row.right else 'NO':>6}{'yes' if row.planned else 'no':>6}{row.rounds:>7}"
        f"{row.model_calls:>7}{row.tool_calls:>6}{row.secs:>6.0f}{row.cpu_secs:>7.0f}  {done}"
    )
    return f"{told}\n{'':12}{row.why}" if row.why else told


def summary(kind: str, rows: Sequence[Row]) -> str:
    """Counts over the runs of a kind."""
    met = [row for row in rows if row.met]
    passed = sum(row.status == "succeeded" and not row.right for row in rows)
    return (
        f"{kind}: {sum(row.right and row.status == 'completed' for row in rows)} of {len(rows)} succeeded with the right answer; "
        f"{len(met)} met the fault, {sum(row.healed for row in met)} of these were healed to the right answer, "
        f"{passed} wrong answers were passed as right; "
        f"medians: {statistics.median(row.model_calls for row in rows):g} model calls, "
        f"{statistics.median(row.tool_calls for row in rows):g} tool calls, "
        f"{statistics.median(row.secs for row in rows):.0f} s ({statistics.median(row.cpu_secs for row in rows):.0f} s of CPU)"
    )


def alike(rows: Sequence[Row]) -> str:
    """Whether runs of the same words came out alike."""
    ways = {(row.status, row.rungs, row.model_calls, row.tool_calls, row.answer) for row in rows}
    texts = {row.trail for row in rows}
    return (
        f"{rows[0].case}, {len(rows)} times unchanged: {len(ways)} outcome{'s' if len(ways) > 1 else ''} "
        f"(status, rungs, calls, answer), {len(texts)} course{'s' if len(texts) > 1 else ''} of plans, "
        f"diagnoses and verdicts; {sum(row.healed for row in rows)} healed to the right answer"
    )
