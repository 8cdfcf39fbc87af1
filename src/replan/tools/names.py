"""Names as people and models write them: folded for comparing, and the nearest ones for a message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_SEPARATORS = re.compile(r"[\s_.\-]+")
_NONE_OF_ASCII = dict.fromkeys(map(ord, filter(_SEPARATORS.fullmatch, map(chr, range(128)))))
_LEAST_LIKE = 0.5


def folded(name: str) -> str:
    """`getWeather`, `get_weather`, `Get-Weather` and `get weather` as one."""
    if name.isascii():
        return name.translate(_NONE_OF_ASCII).lower()
    return _SEPARATORS.sub("", name).casefold()


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """The candidates most like `name`, best first; none that have little to do with it."""
    wanted = folded(name)
    matcher: SequenceMatcher[str] = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    scored: list[tuple[float, str]] = []
    for candidate in candidates:
        form = folded(candidate)
        if not wanted or not form:
            continue
        shorter, longer = sorted((wanted, form), key=len)
        score = 0.6 + 0.4 * len(shorter) / len(longer) if len(shorter) > 2 and shorter in longer else 0.0
        matcher.set_seq1(form)
        if matcher.real_quick_ratio() > max(score, _LEAST_LIKE) and matcher.quick_ratio() > max(
            score, _LEAST_LIKE
        ):
            score = max(score, matcher.ratio())
        if score >= _LEAST_LIKE:
            scored.append((-score, candidate))
    return list(dict.fromkeys(candidate for _, candidate in sorted(scored)))[:n]
