"""Which process drives a task: one locked file a process, so that a dead one lets go by dying.

Each process that opens the store keeps an operating-system lock on `<database>.holders/<holder>` for as
long as it lives. A task's row names its holder; the holder lives if its file cannot be locked.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from filelock import FileLock, Timeout


class Holders:
    """This process's own lock, and the look at others'."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(database.name + ".holders")
        self._folder.mkdir(exist_ok=True)
        self._sweep()
        self.mine = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._lock = FileLock(str(self._folder / self.mine), is_singleton=False)
        self._lock.acquire(blocking=False)

    def alive(self, holder: str | None) -> bool:
        """True if a living process has this name."""
        if holder is None:
            return False
        if holder == self.mine:
            return True
        path = self._folder / holder
        if not path.exists():
            return False
        try:
            with FileLock(str(path), is_singleton=False).acquire(blocking=False):
                return False
        except Timeout:
            return True

    def close(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            (self._folder / self.mine).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()  # only when nobody else is there

    def _sweep(self) -> None:
        """Remove what dead processes left."""
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError, Timeout), FileLock(str(path), is_singleton=False).acquire(
                blocking=False
            ):
                path.unlink(missing_ok=True)
