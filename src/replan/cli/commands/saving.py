"""Outputs as files: what is bytes as bytes, text as text, all else as JSON."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from replan.core.references.binary import as_bytes
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.cli.terminal.terminal import Out


def save(value: Any, file: Path) -> int:
    """Write the value, all of it or nothing; how many bytes. `InputError` where it cannot be written.

    A file that is there keeps its permissions, a link stays a link, and a device or a pipe is written to.
    """
    data = as_bytes(value)
    try:
        if file.exists() and not file.is_dir() and not file.is_file():
            file.write_bytes(data)
        else:
            _replace(file.resolve(), data)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a ring
        raise InputError(f"{file} cannot be written: {getattr(error, 'strerror', '') or error}") from None
    return len(data)


async def to_file(pieces: AsyncIterator[bytes], file: Path) -> int:
    """The same of an output that comes piece by piece."""
    size = 0
    try:
        with _opened(file) as out:
            async for piece in pieces:
                out.write(piece)
                size += len(piece)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{file} cannot be written: {getattr(error, 'strerror', '') or error}") from None
    return size


async def to_stdout(pieces: AsyncIterator[bytes], out: Out) -> int:
    """To whoever reads stdout, as they are."""
    if out.terminal:
        raise InputError(
            "it came as a stream of bytes: write it to a file, with -o FILE, or pass it on: … > FILE"
        )
    size = 0
    async for piece in pieces:
        size += len(piece)
        if not out.raw(piece):
            break
    return size


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    device = file.exists() and not file.is_dir() and not file.is_file()
    return file.open("wb") if device else _replaced(file.resolve())


def _replace(file: Path, data: bytes) -> None:
    with _replaced(file) as out:
        out.write(data)


@contextlib.contextmanager
def _replaced(file: Path) -> Iterator[BinaryIO]:
    """What is written comes in place of the file, once it is whole."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
    part = file.with_name(f".replan-{secrets.token_hex(8)}.part")  # a name that nobody can take beforehand
    # What replaces a file that others may not read is not theirs to read while it is written.
    written = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    try:
        with open(written, "wb") as out:
            yield out
        if mode is not None:
            part.chmod(mode)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
