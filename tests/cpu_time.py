"""A limit of CPU time, for what must end whatever it is given."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu(secs: float) -> Iterator[None]:
    """Fail if the block takes more CPU time than that; however busy the machine is, it gets its time."""

    def too_much(*_: object) -> None:
        raise AssertionError(f"more than {secs} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, too_much)
    signal.setitimer(signal.ITIMER_VIRTUAL, secs)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
