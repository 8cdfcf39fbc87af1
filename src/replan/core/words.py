"""Values and texts in few words, as messages tell them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

YES_NO = {**dict.fromkeys(("yes", "y", "true"), True), **dict.fromkeys(("no", "n", "false"), False)}
"""The words of a plain yes or no, in small letters."""


def kind_of(value: Any) -> str:
    """The kind of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return getattr(value, "kind", "a text")
        case list():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return type(value).__name__


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def in_digits(amount: float | None) -> str:
    """An amount as people read it, never as `1e+06` or `5e-05`; None is what is not limited."""
    if amount is None:
        return "unlimited"
    told = f"{amount:g}"
    if "e" not in told:
        return told
    return f"{amount:.0f}" if abs(amount) >= 1 else f"{Decimal(told):f}"


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def beginning(text: str, most: int = 300) -> str:
    """The text, or as much of its beginning and "…"."""
    return text if len(text) <= most else text[:most] + "…"


def some(names: Sequence[str], most: int, *, between: str = ", ") -> str:
    """The first of the names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
