"""A measure that is told to end leaves nothing behind."""

from __future__ import annotations

import signal
import sys


def clear_up_when_told() -> None:
    """End as by Ctrl-C on SIGTERM, too: what was started is stopped then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
