"""Clocks, memory and tables."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


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
    print(f"{label:32}" + "".join(f"{cell:>{width}}" for cell in shown), flush=True)
