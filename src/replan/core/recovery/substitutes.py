"""Which tools could stand in for one: those with a like description and like parameters, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import lru_cache

from replan.core.types import Effect, ToolId, ToolSpec, strength_of

_WORD = re.compile(r"[^\W\d_]{3,}")
_EMPTY = frozenset(
    {"the", "and", "for", "with", "from", "that", "this", "get", "are", "its", "one", "all", "given"}
)
LIKE_ENOUGH = 0.12
_MOST = 5


EFFECT_WORDS: dict[Effect, str] = {
    "reads": "only reads",
    "repeatable": "has an effect that may be repeated",
    "once": "has an effect",
}


def strongest(*effects: Effect) -> Effect:
    """The strongest of the effects; without any, none may be had."""
    return max(effects, key=strength_of, default="reads")


def substitutes(tool: ToolSpec, tools: Sequence[ToolSpec]) -> list[ToolId]:
    """Ids of the tools that are most like this one, those that are declared to do the same first; without it, and without those of a
    stronger effect."""
    ranked = [
        (1.0 if is_declared(tool, other) else likeness(tool, other), other.id)
        for other in tools
        if other.id != tool.id and not other.is_stronger_than(tool.effect)
    ]
    ranked.sort(key=lambda found: (-found[0], found[1]))
    return [name for score, name in ranked[:_MOST] if score >= LIKE_ENOUGH]


def is_declared(tool: ToolSpec, other: ToolSpec) -> bool:
    """True if the other tool is declared to do the very same thing as this one."""
    return not {other.id, other.name, *other.aliases}.isdisjoint(tool.substitutes)


def likeness(tool: ToolSpec, other: ToolSpec) -> float:
    """From 0 to 1: words of id and description in common, parameters in common, the same effect."""
    words = _overlap(_words(tool), _words(other))
    parameters = _overlap(_names(tool), _names(other))
    effect = 1.0 if tool.effect == other.effect else 0.0
    common = 0.6 * words + 0.3 * parameters
    if words == 0.0 or common < LIKE_ENOUGH:
        return 0.0  # an equal effect alone makes nothing alike
    return common + 0.1 * effect


def _words(tool: ToolSpec) -> frozenset[str]:
    return _words_of(f"{tool.id} {tool.description}")


@lru_cache(maxsize=16_384)
def _words_of(text: str) -> frozenset[str]:
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ")
    return frozenset(_stem(word) for word in _WORD.findall(text.casefold())) - _EMPTY


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 4 else word


def _names(tool: ToolSpec) -> set[str]:
    found = tool.parameters.get("properties")
    return set(found) if isinstance(found, dict) else set()


def _overlap(one: Set[str], other: Set[str]) -> float:
    if not one or not other:
        return 1.0 if not one and not other else 0.0
    return len(one & other) / min(len(one), len(other)) * float((len(one & other) / len(one | other)) ** 0.5)
