"""Outputs as files: what is bytes as bytes, text as text, all else as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from replan.core.paths import PathError, check_path, select
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
    """Write the value, all of it or nothing; how many bytes. `InputError` where it cannot be written."""
    data = _bytes_of(value)
    try:
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            part.write_bytes(data)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror or error}") from None
    return len(data)


def _bytes_of(value: Any) -> bytes:
    """A `data:` URL, also as the `data` of an object that only describes it, is decoded."""
    held = value.get("data") if isinstance(value, dict) else value
    if isinstance(held, str) and (found := from_data_url(held)) is not None:
        return found[1]
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
