"""Which process drives a task: one locked file a process, so that a dead one lets go by dying.

Each process that opens the store keeps an operating-system lock on `<database>.holders/<holder>` for as
long as it lives. A task's row names its holder; the holder lives if its file is locked.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path

TRIES = 100

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, own: bool) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(fd: int, *, own: bool) -> bool:
        """Lock an open file; False if somebody else has it. Owners exclude all, those who look each other not."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if own else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Holders:
    """This process's own lock, and the look at others'."""

    def __init__(self, database: Path) -> None:
        self._folder = _folder(database)
        self._sweep()
        self.mine, self._fd = self._enter()
        _OPEN.add(self)

    def alive(self, holder: str | None) -> bool:
        """True if a living process has this name."""
        if holder is None:
            return False
        return holder == self.mine or _locked(self._folder / holder)

    def others(self) -> bool:
        """True if another living process has the store open, or if that cannot be told."""
        try:
            names = [path for path in self._folder.iterdir() if path.name != self.mine]
        except OSError:
            return True
        return any(map(_locked, names))

    def close(self) -> None:
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / self.mine).unlink(missing_ok=True)
        self.forget()
        with contextlib.suppress(OSError):
            self._folder.rmdir()  # only when nobody else is there

    def forget(self) -> None:
        """Close the file without a word to others: what a forked child has to do with its parent's lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        _OPEN.discard(self)

    def _enter(self) -> tuple[str, int | None]:
        """Make and lock a file of our own. A sweep may take it for a dead one's before it is locked: then again."""
        for _ in range(TRIES):
            name = f"{os.getpid()}-{secrets.token_hex(8)}"
            path = self._folder / name
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except (FileNotFoundError, FileExistsError):  # the last one out has just removed the folder
                continue
            try:
                if _lock(fd, own=True) and _names(path, fd):
                    return name, fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise OSError(f"no lock file can be kept in {self._folder}")

    def _sweep(self) -> None:
        """Remove what dead processes left."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                _locked(path, remove=True)


def alive(database: Path, holder: str | None) -> bool:
    """The same for whoever is none of them, and only looks."""
    return holder is not None and _locked(_folder(database.resolve()) / holder)


def anybody(database: Path) -> bool:
    """Whether a living process has the store open, or that cannot be told."""
    try:
        return any(map(_locked, list(_folder(database.resolve()).iterdir())))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _folder(database: Path) -> Path:
    return database.with_name(database.name + ".holders")


def _locked(path: Path, *, remove: bool = False) -> bool:
    """True if a process has the file locked; otherwise it may be removed while nobody can lock it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be told: rather wait for somebody dead than drive a task twice
    try:
        if not _lock(fd, own=False):
            return True
        if remove:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return False
    finally:
        os.close(fd)


def _names(path: Path, fd: int) -> bool:
    """True if the path still leads to the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


_OPEN: set[Holders] = set()
"""Kept here, not by the stores: a lock whose store was dropped without a word is still a lock."""


def _after_fork() -> None:
    """A child shares its parent's lock, and would keep the parent's tasks held after its death."""
    for holders in list(_OPEN):
        holders.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
