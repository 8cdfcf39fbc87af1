"""Values that hold nothing: an envelope around nothing is nothing, and so is the word "none" where a text is wanted."""

from __future__ import annotations

from typing import Any

from replan.core.walk import every

_FILLERS = frozenset(
    {"", "-", "--", "none", "null", "nil", "n/a", "na", "no", "false", "nothing", "not applicable"}
)


def is_filler(text: str) -> bool:
    """True for what is written where a field has to be filled and there is nothing to say."""
    return text.strip(" \t\r\n.\"'").casefold() in _FILLERS


def is_nothing(value: Any) -> bool:
    """True if no text, no number but 0 and no `true` stands anywhere in the value."""
    return not any(
        one.strip() if isinstance(one, str) else one
        for one in every(value)
        if not isinstance(one, dict | list | tuple)
    )
