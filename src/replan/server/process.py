"""What a process that is the service asks of Python and of the system, once."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys

_OPEN_FILES = 65_536
_COLLECTED = (20_000, 50, 200)
"""What is made by thousands of tasks lives long: to look through it often stops the loop, and frees nothing."""


def prepare() -> None:
    """To be called when everything is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED)
    _give_back()
    wanted = most_files()
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # each connection is one
        if wanted is not None and soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_files() -> int | None:
    """How many the process may have open, once it is prepared; None: nobody says."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    return max(soft, _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES))


def _give_back() -> None:
    """Have large blocks go back to the system when they are freed: glibc learns to keep what it has seen freed once, for each thread by itself."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGE)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of `mallopt` (malloc.h)."""
_LARGE = 1_048_576
