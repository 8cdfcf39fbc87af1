"""Files that people name, and JSON that they write: bounded in size, depth and digits, and with nothing passed over in silence."""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path
from typing import Any

from replan.errors import ConfigError

MOST_BYTES = 16 * 2**20
"""Of a file that is not said to be larger."""
MOST_LEVELS = 100
MOST_DIGITS = 1_000
"""Of a whole number; JSON and TOML have no limit, and reading them takes ever longer."""
_LARGEST = 10**MOST_DIGITS


class Unusable(ValueError):
    """A value that is written rightly and cannot be worked with."""


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """What the file holds. `OSError` also where that is more than `most` bytes: a device may have no end."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes")
    return data


def read_json(text: str) -> Any:
    """The JSON value; `ValueError` in words for what is none, and `Unusable` for one that cannot be worked with."""
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_int=_whole,
            parse_float=_number,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise _too_deep() from None
    return usable(value)


def usable(value: Any) -> Any:
    """The value that a file gave; `Unusable` where it is nested too deep, or has a number with too many digits."""
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, dict | list):
            if depth == MOST_LEVELS:
                raise _too_deep()
            waiting += [(part, depth + 1) for part in (one.values() if isinstance(one, dict) else one)]
        elif type(one) is int and not -_LARGEST < one < _LARGEST:
            raise Unusable(f"a number of more than {MOST_DIGITS:,} digits cannot be worked with")
    return value


def _too_deep() -> Unusable:
    return Unusable(f"it is nested more than {MOST_LEVELS} levels deep")


def _too_long(digits: int) -> Unusable:
    return Unusable(f"a number of {digits:,} digits; at most {MOST_DIGITS:,} can be worked with")


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise _too_long(len(digits.lstrip("-")))
    return int(digits)


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), -float("inf")):
        raise Unusable(f"{text[:40]} is larger than any number that can be worked with")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if json.dumps(value, sort_keys=True) != json.dumps(found[key], sort_keys=True):
                raise Unusable(f"the key {key[:100]!r} is given twice with different values")
    return found


def rotating(path: Path, setting: str, *, most_bytes: int, kept: int) -> logging.Handler:
    """Lines go to the file, which its owner alone may read; so many bytes, then it is put aside, and so many of those are kept.

    `setting`: what has named it, for a `ConfigError`.
    """
    import logging.handlers

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=most_bytes, backupCount=kept, encoding="utf-8"
        )
        path.chmod(0o600)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(f"{setting}: {path} cannot be written ({why}): name a file that can be") from None
    return handler
