"""Outputs as files: what is bytes as bytes, text as text, all else as JSON."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from replan.core.references.paths import PathError, check_path, select
from replan.errors import InputError
from replan.tools.binary import from_data_url


def part_of(value: Any, path: str) -> Any:
    """What a path selects; `InputError` where it selects nothing."""
    if wrong := check_path(path):
        raise InputError(f"--path {path}: {wrong}")
    try:
        return select(path, value)
    except PathError as error:
        has = f"; there is: {', '.join(error.available[:20])}" if error.available else ""
        raise InputError(
            f"--path {path}: selects nothing{f': {error.why}' if error.why else ''}{has}"
        ) from None


def save(value: Any, file: Path) -> int:
    """Write the value, all of it or nothing; how many bytes. `InputError` where it cannot be written.

    A file that is there keeps its permissions, a link stays a link, and a device or a pipe is written to.
    """
    data = _bytes_of(value)
    try:
        if file.exists() and not file.is_dir() and not file.is_file():
            file.write_bytes(data)
        else:
            _replace(file.resolve(), data)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a ring
        raise InputError(f"{file} cannot be written: {getattr(error, 'strerror', '') or error}") from None
    return len(data)


def _replace(file: Path, data: bytes) -> None:
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
    part = file.with_name(f".replan-{secrets.token_hex(8)}.part")  # a name that nobody can take beforehand
    # What replaces a file that others may not read is not theirs to read while it is written.
    written = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    try:
        with open(written, "wb") as out:
            out.write(data)
        if mode is not None:
            part.chmod(mode)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _bytes_of(value: Any) -> bytes:
    """A `data:` URL, also as the `data` of an object that only describes it, is decoded."""
    held = value.get("data") if isinstance(value, dict) else value
    if isinstance(held, str) and (found := from_data_url(held)) is not None:
        return found[1]
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
