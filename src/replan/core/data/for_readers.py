"""Fields that models add to what they were asked for, and that say something to a reader alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

FOR_READERS = (
    "description", "reason", "reasoning", "rationale", "justification", "why", "explanation", "analysis", "purpose", "goal",
    "thought", "thoughts", "thinking", "comment", "comments", "note", "notes", "summary", "title", "name", "label", "tags",
    "confidence", "id", "version", "success_criteria", "expected_result", "expected_outcome", "expected_output", "expected_outputs",
)  # fmt: skip
NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Values that say nothing."""


def folded(name: str) -> str:
    """A name without regard to case and to how its words are parted."""
    return _kept(name) if len(name) <= _NAME else as_word(name)


def as_word(text: str) -> str:
    """The same of any text, of which nothing is kept."""
    return text.lower().replace("_", "").replace("-", "").replace(" ", "")


_NAME = 80
"""Characters of a name; what is longer is none, and is not kept for the next time."""
_kept = lru_cache(maxsize=512)(as_word)
