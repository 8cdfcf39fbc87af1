"""Scores as models write them, read as 0 to 100."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import fold, opened

_NAMES = ("score", "value", "rating", "points")
_WRITTEN = re.compile(
    r"\s*([-+]?\d+(?:[.,]\d+)?)\s*(%|/\s*(\d+(?:\.\d+)?)|out of (\d+(?:\.\d+)?)|points?)?\s*"
)


def dimensions_in(answer: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The scores by their names: an object, also as a text of one, as a list of objects that name theirs, or beside the answer's own fields."""
    given = opened(answer.get("dimensions"))
    if isinstance(given, list) and all(isinstance(one, Mapping) for one in given):
        called = [(next((one[key] for key in _CALLED if key in one), None), one) for one in given]
        return {name: one for name, one in called if isinstance(name, str)}
    if given in (None, ""):
        found = {key: value for key, value in answer.items() if fold(key) in names}
        return found or given
    return given


_CALLED = ("name", "dimension", "criterion")


def read_scores(raw: Mapping[str, Any]) -> dict[str, float]:
    """Scores that belong together, on the scale 0 to 100.

    Texts like "85", "85 %", "8/10" are read. Where none of the plain numbers is above 1 and one lies between
    0 and 1, all of them are fractions. `Violations` names every score that is no number, out of range, or on a
    scale that cannot be told (all 0 or 1, with a 1 among them).
    """
    problems: list[str] = []
    plain: dict[str, float] = {}
    scaled: dict[str, float] = {}
    for name, value in raw.items():
        try:
            number, is_scaled = _number(value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        (scaled if is_scaled else plain)[name] = number
    if plain and any(plain.values()) and max(plain.values()) <= 1 and min(plain.values()) >= 0:
        if not any(0 < number < 1 for number in plain.values()):
            problems.append(f"{', '.join(plain)}: it cannot be told whether 1 means 1 or 100; use 0 to 100")
        plain = {name: number * 100 for name, number in plain.items()}
    elif fractions := [name for name, number in plain.items() if 0 < number < 1]:
        problems.append(f"{', '.join(fractions)}: a fraction among scores of 0 to 100; use 0 to 100 for all")
    scores = {**plain, **scaled}
    problems += [
        f"{name}: a score is between 0 and 100, not {score:g}"
        for name, score in scores.items()
        if not 0 <= score <= 100
    ]
    if problems:
        raise Violations(problems)
    return {name: round(scores[name], 6) for name in raw}


def _number(value: Any) -> tuple[float, bool]:
    """The number, and whether it is surely on the scale of 0 to 100 already."""
    if isinstance(value, Mapping) and len(told := [value[name] for name in _NAMES if name in value]) == 1:
        return _number(told[0])  # with a reason beside it
    if isinstance(value, bool) or value is None:
        raise ValueError(f"a score is a number between 0 and 100, not {value!r}")
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise ValueError("a score has to be finite")
        return float(value), False
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"a score is a number between 0 and 100, not {str(value)[:40]!r}")
    number = float(found[1].replace(",", "."))
    if not found[2]:
        return number, False
    if found[2].startswith("point"):
        return number, False
    if found[2] == "%":
        return number, True
    whole = float(found[3] or found[4])
    if whole <= 0:
        raise ValueError(f"{value!r} is no score")
    return number / whole * 100, True
