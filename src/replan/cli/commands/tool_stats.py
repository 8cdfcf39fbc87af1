"""The statistics of tools as rows and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import InputError
from replan.tools.names import folded, nearest

_HEAD = ("tool", "calls", "success", "p50", "p95", "commonest errors")


def rows_of(stats: Mapping[ToolKey, ToolStats], tool: str | None) -> list[dict[str, Any]]:
    """One row a tool, the most called first; times in seconds. `InputError` for a tool that was never called."""
    stats = {
        key: one for key, one in stats.items() if one.calls
    }  # spoilt in the database: as if never called
    chosen = stats
    if tool is not None:
        chosen = {key: one for key, one in stats.items() if folded(key.tool_id) == folded(tool)}
        if not chosen:
            near = nearest(tool, [key.tool_id for key in stats])
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise InputError(f"the tool {tool!r} was never called in a task of this database{hint}")
    ordered = sorted(chosen.items(), key=lambda each: (-each[1].calls, each[0]))
    return [
        {
            "tool": key.tool_id,
            "source": key.source,
            "calls": one.calls,
            "failures": one.failures,
            "success_rate": one.success_rate,
            "p50_secs": one.quantile(0.5),
            "p95_secs": one.quantile(0.95),
            "errors": [{"error": words, "count": count} for words, count in one.common_errors(5)],
        }
        for key, one in ordered
    ]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows in columns; each further error on a line of its own."""
    if not rows:
        return ["no tool was called in a task of this database yet (of imported tasks nothing is counted)"]
    several = Counter(row["tool"] for row in rows)
    cells: list[tuple[str, ...]] = [_HEAD]
    for row in rows:
        name = row["tool"] if several[row["tool"]] == 1 else f"{row['tool']} ({row['source']})"
        errors = [f"{each['count']}× {each['error']}" for each in row["errors"][:3]] or [""]
        rate = f"{100 * row['success_rate']:.0f} %"
        cells.append(
            (name, str(row["calls"]), rate, _secs(row["p50_secs"]), _secs(row["p95_secs"]), errors[0])
        )
        cells += [("", "", "", "", "", more) for more in errors[1:]]
    widths = [max(len(row[at]) for row in cells) for at in range(5)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(row[at].rjust(widths[at]) for at in range(1, 5)), row[5]]
        ).rstrip()
        for row in cells
    ]


def _secs(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 0.1:
        return f"{1000 * value:.2g} ms"
    return f"{value:.2g} s" if value < 100 else f"{value:.0f} s"
