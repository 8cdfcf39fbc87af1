"""A file that is written whole under its name, or not at all, and never over another one unasked."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from replan.errors import InputError


class Target(NamedTuple):
    write: Callable[[bytes], object]
    safe: Callable[[], None]
    """All of it is written: have it on the disk under its name."""


def settled(file: Path, *, whole: bool) -> Path:
    """Where it is written to: a link stays a link. `whole`: it has to be there afterwards, so that a device or a pipe will not do."""
    if whole and file.exists() and not file.is_dir() and not file.is_file():
        raise InputError(
            f"{file} keeps nothing: what is given away has to be safe first, in an ordinary file"
        )
    return file.resolve() if file.is_symlink() else file


def check_free(file: Path, *, over: bool = False, why: str = "write over it with --force") -> None:
    """`InputError` if a file is there already. `why`: what to do but to give another name."""
    if file.is_dir():
        raise InputError(f"{file} cannot be written: {os.strerror(errno.EISDIR)}")
    if file.exists() and not over:
        raise InputError(f"{file} is there already: give another name; {why}")


@contextlib.contextmanager
def new_file(file: Path, *, over: bool = False) -> Iterator[Target]:
    """A file to write to. What was written and did not become safe is removed. A device or a pipe is written to as it is."""
    try:
        if file.exists() and not file.is_dir() and not file.is_file():
            with file.open("wb") as device:
                yield Target(device.write, device.flush)
            return
        check_free(file, over=over)
        part = file.with_name(f".replan-{secrets.token_hex(8)}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                taken(out)

                def write(piece: bytes) -> None:
                    out.write(piece)
                    out.flush()  # whoever is killed leaves all of it behind

                def safe() -> None:
                    out.flush()
                    os.fsync(out.fileno())
                    place(part, file, over=over)

                yield Target(write, safe)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror or error}") from None


def place(part: Path, file: Path, *, over: bool = False) -> None:
    """Give a written file its name, also on the disk; over no other one unless `over`."""
    if over:
        part.replace(file)
    else:
        try:
            os.link(part, file, follow_symlinks=False)
        except FileExistsError:
            check_free(file)
            raise
        except (OSError, NotImplementedError):  # a file system that has no such names
            check_free(file)
            part.rename(file)
        part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not every system has folders that can be synced
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def taken(part: BinaryIO) -> bool:
    """Take a file for oneself, as long as it is open; False where somebody else has it, who is at work on it."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        return True
    try:
        fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def parts(file: Path) -> list[Path]:
    """Files beside it that were written, and whose writers were stopped before they had their names."""
    with contextlib.suppress(OSError):
        return sorted(file.parent.glob(".replan-*.part"))
    return []


def forget_parts(file: Path) -> None:
    """Remove other names of it that were left beside it: its writer was stopped just after it had its own."""
    for part in parts(file):
        with contextlib.suppress(OSError):
            if part.samefile(file):
                part.unlink()
