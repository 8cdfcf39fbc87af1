"""Rows as tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from bench.recovery.beside import PLACES, Beside
from bench.recovery.row import Row

BAR = 0.99
"""Share of the recoverable tasks that an oracle which is always right has to finish."""
VERDICT = {True: "holds", False: "DOES NOT HOLD"}
HEAD = f"{'':26}{'tasks':>6}{'right end':>11}{'wasted':>9}{'twice':>7}{'lost':>6}{'models':>8}{'time':>7}{'max':>7}"
LEGEND = (
    "right end: finished, or reported as what a person has to do where nothing else helps; wasted: calls a task that\n"
    "could have been avoided; twice: effects made oftener than wanted; lost: outputs that tools gave and nobody has;\n"
    "models: model calls a task; time: seconds to those of the right plan without a fault (a call takes 1 s, a model 2 s)"
)


def line(label: str, rows: Sequence[Row]) -> str:
    """One line for these rows."""

    def mean(of: Callable[[Row], float]) -> float:
        return statistics.mean(map(of, rows))

    times = [one.secs / one.critical_path for one in rows if one.critical_path]
    time = f"{statistics.mean(times):7.2f}{max(times):7.2f}" if times else f"{'–':>7}{'–':>7}"
    return (
        f"{label:26}{len(rows):6}{mean(lambda one: one.right_end):11.1%}{mean(lambda one: one.wasted):9.2f}"
        f"{sum(one.duplicates for one in rows):7}{sum(one.lost for one in rows):6}"
        f"{mean(lambda one: one.model_calls):8.2f}{time}"
    )


def by(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """The rows by some name, in the order in which the names first come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def table(title: str, rows: Sequence[Row], key: Callable[[Row], str], *, total: bool = True) -> str:
    """A line for each name, and one for all of them where that means something."""
    groups = by(rows, key)
    lines = [line(name, those) for name, those in groups.items()]
    return "\n".join([title, HEAD, *lines, *([line("all", rows)] if total and len(groups) > 1 else [])])


def kinds(title: str, rows: Sequence[Row]) -> str:
    """By what went wrong; those that no recovery finishes apart."""
    return table(title, rows, lambda row: row.kind + (" (report)" if row.ending == "reported" else ""))


def verdicts(rows: Sequence[Row], every: Sequence[Row] | None = None) -> str:
    """What was asked for, and whether it holds; effects and outputs are counted over `every` row."""
    sure = [row for row in rows if row.right == 1.0 and row.ending == "finished"]
    counted = rows if every is None else every
    twice, lost = sum(row.duplicates for row in counted), sum(row.lost for row in counted)
    told = []
    if sure:
        share = statistics.mean(row.finished for row in sure)
        told.append(
            f"p = 1.0: {share:.2%} of {len(sure)} recoverable tasks finished; the bar {BAR:.0%} {VERDICT[share >= BAR]}"
        )
    told.append(f"effects made twice: {twice}; the bar 0 {VERDICT[twice == 0]}")
    told.append(f"outputs lost: {lost}; the bar 0 {VERDICT[lost == 0]}")
    return "\n".join(told)


def wrong_ends(rows: Sequence[Row], most: int = 12) -> str:
    """The rows whose end is not the right one though the oracle was always right."""
    found = [row for row in rows if row.right == 1.0 and not row.right_end]
    return "\n".join(f"    {row.case}: {row.ended}" for row in found[:most])


def peers(rows: Sequence[Row], rights: Sequence[float]) -> str:
    """Every runner over the same tasks: recoverable ones, and the others."""
    told = []
    for right in rights:
        those = [row for row in rows if row.right == right]
        told.append(table(f"p = {right}: every runner over the same tasks", those, _runner, total=False))
        told.append(
            f"{'right end by what went wrong':30}" + "".join(f"{name:>15}" for name in by(those, _runner))
        )
        for kind, of_kind in by(those, lambda row: row.kind).items():
            cells = [statistics.mean(one.right_end for one in each) for each in by(of_kind, _runner).values()]
            twice = [sum(one.duplicates for one in each) for each in by(of_kind, _runner).values()]
            told.append(
                f"{kind:30}"
                + "".join(
                    f"{f'{share:.0%}' + (f', {n} twice' if n else ''):>15}"
                    for share, n in zip(cells, twice, strict=True)
                )
            )
        told.append("")
    return "\n".join(told)


def _runner(row: Row) -> str:
    return row.runner


def beside(found: Sequence[Beside]) -> str:
    """How long graphs take with a step that fails and is recovered."""
    ratios = [one.ratio for one in found]
    worst = max(found, key=lambda one: one.ratio)
    eight = [one.with_eight / one.bound_of_eight for one in found]
    longer = [one.with_eight / max(one.undisturbed, one.critical_path) for one in found]
    return "\n".join(
        [
            f"{len(found)} graphs with {sum(one.steps for one in found)} steps; one step of each fails once",
            f"{'':56}{'median':>10}{'p95':>10}{'max':>10}",
            _spread("a place for each, to the critical path with its recovery", ratios),
            _spread(f"{PLACES} places, to the lower bound with its recovery", eight),
            _spread(f"{PLACES} places, to the longer of that path and no failure", longer),
            f"at most {worst.ratio:.6f} of the critical path with its recovery ({worst.dag}); the bar 1.00 {VERDICT[worst.ratio <= 1.0 + 1e-6]}",
        ]
    )


def _spread(label: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{label:56}{statistics.median(ordered):10.4f}{p95:10.4f}{ordered[-1]:10.4f}"
