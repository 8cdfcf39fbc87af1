"""The values in a secret that is one of many parts: a file with a key, a text of many lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

from replan.core.secrets.spellings import LONG

_LINE = 20
"""Characters from which on a line of a secret is one by itself."""


def written_in(text: str) -> Iterator[tuple[str, Any]]:
    """The values in a secret that is itself JSON, as a file with a key is: references read into it; and the lines of any other,
    since a key is also written with other ends of lines, indented, or without any."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield from _values_in(json.loads(text))
        except (ValueError, RecursionError):
            pass
        else:
            return
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) > 1:
        for line in lines:
            dense = " " not in line and len(line) >= LONG
            if (dense or len(line) >= _LINE) and not line.startswith("-----"):
                yield "", line


def _values_in(value: Any) -> Iterator[tuple[str, Any]]:
    waiting: deque[tuple[str, Any]] = deque([("", value)])
    while waiting:
        name, value = waiting.popleft()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, item) for item in value]
        else:
            yield name, value
