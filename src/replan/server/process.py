"""What a process that is the service asks of Python and of the system, once."""

from __future__ import annotations

import contextlib
import gc

_OPEN_FILES = 65_536
_COLLECTED = (20_000, 50, 200)
"""What is made by thousands of tasks lives long: to look through it often stops the loop, and frees nothing."""


def prepare() -> None:
    """To be called when everything is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # each connection is one
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
