"""How much work something is, told without a clock: so many function calls."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

MORE = 1.3
"""How much more than in proportion the work may grow."""


def calls_in(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, the work takes in this thread."""
    count = 0

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # finalizers of other tests' rubbish would be counted
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def grows_in_proportion(work: Callable[[int], object], size: int) -> bool:
    """True if four times as much takes no more than some eight times the processor's time in this thread.

    What is quadratic within one call into C (a regular expression, `in` a list) is one call for `calls_in`, however long.
    """
    work(size // 4)
    return _secs(work, size * 4) < 8 * _secs(work, size) + 0.05


def _secs(work: Callable[[int], object], size: int) -> float:
    before = time.thread_time()
    work(size)
    return time.thread_time() - before
