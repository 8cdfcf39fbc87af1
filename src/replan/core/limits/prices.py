"""What tokens are, about, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable

from replan.core.types import Frozen, Usage

BYTES_OF_TOKEN = 4
"""About: four letters of English, a letter and a third of Chinese."""


class Price(Frozen):
    """Dollars for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """Of tokens that were read from the provider's cache; None: as of any other."""

    def of(self, usage: Usage) -> float:
        """What this usage costs."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        kept = self.input if self.cached_input is None else self.cached_input
        asked = (usage.input_tokens - cached) * self.input + cached * kept
        return (asked + usage.output_tokens * self.output) / 1_000_000


FREE = Price(input=0, output=0)


def tokens_in(texts: Iterable[str]) -> int:
    """About how many tokens these texts are."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_OF_TOKEN


def total(usages: Iterable[Usage]) -> Usage:
    """All of it together."""
    every = list(usages)
    return Usage(**{name: sum(getattr(usage, name) for usage in every) for name in Usage.model_fields})
