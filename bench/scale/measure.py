"""Clocks, memory and tables."""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # the tests are not a package

T = TypeVar("T")


class Sizes(NamedTuple):
    """How large it gets."""

    events: int = 10_000_000
    """In a store."""
    queued: int = 100_000
    """Tasks in the queue."""
    waiting: int = 10_000
    """Tasks that wait for a person."""
    tasks: int = 1_000
    """That workers are given."""


def no_postgres() -> str:
    """Why nothing can be measured on PostgreSQL here; empty where it can."""
    from postgres_server import missing

    return missing() or ""


def cpu_of(work: Callable[[], T], times: int = 1) -> tuple[float, T]:
    """Median CPU seconds of some calls, and what the last one gave."""
    spent = []
    for _ in range(times):
        gc.collect()
        begun = time.process_time()
        found = work()
        spent.append(time.process_time() - begun)
    return statistics.median(spent), found


def rss_kib() -> float:
    """Memory that this process has in use, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def cpu_secs(pids: Iterable[int]) -> float:
    """What these processes, and those of theirs that have ended, have used so far."""
    ticks = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def row(label: str, cells: Sequence[object], width: int = 11) -> None:
    """One line of a table."""
    shown = (
        f"{cell:.4f}"
        if isinstance(cell, float) and cell < 10
        else f"{cell:,.1f}"
        if isinstance(cell, float)
        else f"{cell}"
        for cell in cells
    )
    print(f"{label:42}" + "".join(f"{cell:>{width}}" for cell in shown), flush=True)
