"""Rows as a table, and what was asked of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.plans.replan_runs import BEFORE, NOW
from bench.plans.row import Row

BAR = 0.6
"""Requests now to those before, at most, in the kinds that were missed most."""
BARRED = ("look first, then plan the rest", "a model in the middle", "several things with each item")
LEGEND = "Cells: before → now · {}. `!`: the task was not done. Tokens by one estimate for all; seconds of a model by them."


def told(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Everything, in Markdown."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    of = {(row.task, row.runner): row for row in rows}
    head = (
        "| task | a plan says | requests | tokens read | tokens written | seconds | to critical path |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    lines = []
    for name in tasks:
        before, now = of[name, BEFORE], of[name, NOW]
        those = [before, now, *(of[name, peer] for peer in peers)]
        cells = [
            _cell(those, lambda row: f"{row.requests}{'!' if row.wrong else ''}"),
            _cell(those, lambda row: f"{row.prompt_tokens:,}"),
            _cell(those, lambda row: f"{row.answer_tokens:,}"),
            _cell(those, lambda row: f"{row.secs:.0f}"),
        ]
        lines.append(f"| {name} | {now.kind} | {' | '.join(cells)} | {now.to_critical:.2f} |")
    totals = [[row for row in rows if row.runner == runner] for runner in (BEFORE, NOW, *peers)]
    sums = [
        _joined(f"{sum(map(of_row, those)):,}" for those in totals) for of_row in (_requests, _read, _written)
    ]
    sums.append(_joined(f"{sum(row.secs for row in those):,.0f}" for those in totals))
    return "\n".join(
        [
            LEGEND.format(" · ".join(peers) or "no peers"),
            "",
            head,
            *lines,
            f"| all | | {' | '.join(sums)} | |",
        ]
    )


@dataclass(frozen=True)
class Verdict:
    """Something that was asked for."""

    said: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.said}: {'held' if self.holds else 'MISSED'}"


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What was asked for, and whether it holds."""
    ratios: dict[str, list[float]] = {}
    requests = {(row.task, row.runner): row.requests for row in rows}
    for row in rows:
        if row.runner == NOW:
            ratios.setdefault(row.kind, []).append(row.requests / requests[row.task, BEFORE])
    found = [
        Verdict(
            f"{kind}: at most {max(those):.0%} of the requests before; the bar {BAR:.0%}", max(those) <= BAR
        )
        for kind, those in ratios.items()
        if kind in BARRED
    ]
    worst = max((one for those in ratios.values() for one in those), default=math.nan)
    found.append(Verdict(f"every task: at most {worst:.0%} of the requests before; the bar 100%", worst <= 1))
    wrong = [row for row in rows if row.wrong and row.runner != BEFORE]
    found.append(Verdict(f"tasks that are done, with just their effects: all but {len(wrong)}", not wrong))
    return found


def _cell(rows: Sequence[Row], told_of: Callable[[Row], str]) -> str:
    return _joined(map(told_of, rows))


def _joined(texts: Iterable[str]) -> str:
    before, *others = texts
    return f"{before} → {' · '.join(others)}"


def _requests(row: Row) -> int:
    return row.requests


def _read(row: Row) -> int:
    return row.prompt_tokens


def _written(row: Row) -> int:
    return row.answer_tokens
