"""The files that a path means: the file itself, or those of a folder. Bounded, and never out of the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

MOST_FILES = 2_000
"""Of all paths together."""
MOST_BYTES = 512 * 1024
"""Of one file."""
MOST_DEPTH = 3
"""Folders within folders."""


class Found(NamedTuple):
    """A file, and by what it is seen that it has changed; or why it cannot be used."""

    path: Path
    stamp: tuple[int, ...] = ()
    problem: str = ""


def found_in(path: Path, suffixes: Collection[str]) -> Iterator[Found]:
    """The files of these kinds, by name, as far as they may be read."""
    try:
        root = path.resolve(strict=True)
        status = root.stat()
    except (OSError, RuntimeError, ValueError) as error:
        yield Found(path, problem=f"it cannot be found: {_said(error)}")
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _of_folder(path, root, suffixes, MOST_DEPTH)
    else:
        yield _of_file(path, status)


def _of_folder(folder: Path, root: Path, suffixes: Collection[str], depth: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        yield Found(folder, problem=f"it cannot be read: {_said(error)}")
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        wanted = os.path.splitext(entry.name)[1].lower() in suffixes
        path = folder / entry.name
        try:
            status = entry.stat()
            outside = entry.is_symlink() and not path.resolve(strict=True).is_relative_to(root)
        except (OSError, RuntimeError, ValueError) as error:
            if wanted:
                yield Found(path, problem=f"it cannot be found: {_said(error)}")
            continue
        if stat.S_ISDIR(status.st_mode):
            if depth and not entry.is_symlink():
                yield from _of_folder(path, root, suffixes, depth - 1)
        elif wanted and outside:
            yield Found(
                path, problem="it is a link that leads out of its folder; name what it leads to by itself"
            )
        elif wanted:
            yield _of_file(path, status)


def _of_file(path: Path, status: os.stat_result) -> Found:
    stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
    if not stat.S_ISREG(status.st_mode):
        return Found(path, stamp, "it is no file")
    if status.st_size > MOST_BYTES:
        return Found(path, stamp, f"it has {status.st_size:,} bytes; at most {MOST_BYTES:,} are read")
    return Found(path, stamp)


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
