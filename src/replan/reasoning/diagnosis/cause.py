"""How a diagnosis names the kind of a cause, and how sure it is."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

from replan.core.types import Category
from replan.reasoning.prompting.read_values import fold

_CATEGORIES: tuple[Category, ...] = get_args(Category)
OUTSIDE = ("server_error", "external_error")
_WORDS_OF_CONFIDENCE = {"certain": 1.0, "very_high": 0.95, "high": 0.9, "medium": 0.6, "moderate": 0.6, "low": 0.3, "very_low": 0.1}  # fmt: skip
_NUMBER = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*(%|/\s*(\d+)|out of (\d+))?\s*")


def category(value: Any) -> Category:
    word = fold(value)
    return next((name for name in _CATEGORIES if word in (name, name.removesuffix("_error"))), "unknown")


def confidence(value: Any) -> float:
    """0 to 1; above 1 it is percent. What cannot be understood is the default."""
    default = 0.5
    if isinstance(value, str):
        written = _NUMBER.fullmatch(value)
        if written is None:
            return _WORDS_OF_CONFIDENCE.get(fold(value), default)
        number = float(written[1].replace(",", "."))
        if written[2]:
            whole = 100.0 if written[2] == "%" else float(written[3] or written[4])
            number = number / whole if whole else math.inf
        else:
            number = _fraction(number)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _fraction(value)
    else:
        return default
    return number if 0 <= number <= 1 else default


def _fraction(number: float) -> float:
    """A bare 1 is all, not one percent: nobody is sure of a thing to one percent and proposes it."""
    try:
        return float(number) / 100 if number > 1 else float(number)
    except OverflowError:
        return math.inf
