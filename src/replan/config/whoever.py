"""Who does something to a task, for its log."""

from __future__ import annotations

import getpass

from replan.config.options import text_of


def whoever(by: str | None) -> str:
    """As given, or the user of this process."""
    if by is not None:
        return text_of("by", by)
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return ""
