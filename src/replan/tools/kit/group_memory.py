"""How much memory a process and all that it has started use together, and when that is too much."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

_LOOK_SECS = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_MOST_PROCESSES = 10_000


def within(limit_bytes: int) -> Callable[[int], Coroutine[Any, Any, str]]:
    """Watches a process and its descendants; says why they have to be stopped. A limit of the system holds for each
    of them alone, so that ten may use ten times as much. Where there is no /proc (not Linux), it watches in vain.
    """

    async def watch(pid: int) -> str:
        while True:
            await asyncio.sleep(_LOOK_SECS)
            members = _group(pid)
            # What is shared counts once; finding that out costs more, and is needed near the limit only.
            if sum(map(_resident, members)) > limit_bytes and sum(map(_own, members)) > limit_bytes:
                return (
                    f"it and what it started ({len(members)} processes) used more than "
                    f"{limit_bytes // 2**20:,} MB of memory together"
                )

    return watch


def _group(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        if len(found) > _MOST_PROCESSES:
            break
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{each}/task"):
                told = Path(f"/proc/{each}/task/{thread}/children").read_text("ascii")
                found += map(int, told.split())
    return found


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE
    return 0


def _own(pid: int) -> int:
    """Its part of what it uses: what it shares with others, divided among them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text("ascii").split())
        return (resident - shared) * _PAGE
    return 0
