"""Commands that are printed for copying: with the options that this command was given, so that they run as they are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TypeVar

V = TypeVar("V", str | None, Path | None)

_given: dict[str, str] = {}
"""What this process's command was given of `--db` and `--config`; a process runs one command."""


def carried_db(value: str | None) -> str | None:
    """Take note of `--db`."""
    return _carried("--db", value)


def carried_config(value: Path | None) -> Path | None:
    """Take note of `--config`."""
    return _carried("--config", value)


def _carried(flag: str, value: V) -> V:
    if value is None:
        _given.pop(flag, None)
    else:
        _given[flag] = str(value)
    return value


def again(*words: str) -> str:
    """`replan` with these words, and with the `--db` and `--config` of the present command."""
    return shlex.join(["replan", *words, *(part for pair in _given.items() for part in pair)])
