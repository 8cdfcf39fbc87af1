"""Patterns of paths: `*`, `?`, `[…]` within a name, `**` for any number of folders."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import cache

from replan.errors import ToolCallError


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path fits. A pattern without `/` is about the name alone, as in `*.csv`; case counts."""
    if not pattern or "\0" in pattern or len(pattern) > 1000:
        raise ToolCallError(
            f"pattern: {pattern[:50]!r} is not a pattern; right are *.csv, reports/*.txt or **/2024-*.md",
            kind="parameter",
            happened="no",
        )
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if len(names) == 1 and names[0] != "**":
        names = ["**", *names]
    tests = [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]

    def fits(path: str) -> bool:
        parts = path.split("/")

        @cache  # `**` after `**` would be tried over and over
        def from_(at: int, test: int) -> bool:
            if test == len(tests):
                return at == len(parts)
            wanted = tests[test]
            if wanted is None:
                return from_(at, test + 1) or (at < len(parts) and from_(at + 1, test))
            return at < len(parts) and wanted.match(parts[at]) is not None and from_(at + 1, test + 1)

        return from_(0, 0)

    return fits
