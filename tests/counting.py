"""How much work something is, told without a clock: so many function calls."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

MORE = 1.3
"""How much more than in proportion the work may grow."""


def calls_in(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, the work takes in this thread."""
    count = 0

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # finalizers of other tests' rubbish would be counted
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count
