"""What requests to a model cost: tokens by one estimate for all, and time by them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from replan.core.limits.prices import tokens_in

SECS = 0.5
"""That any request takes."""
READ_A_SEC = 5000
"""Tokens of a prompt."""
WRITTEN_A_SEC = 60
"""Tokens of an answer."""


@dataclass
class Meter:
    """The requests of one run."""

    prompts: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    asked: list[tuple[float, float]] = field(default_factory=list)
    """From when to when."""

    async def ask(self, prompt: Iterable[str], answer: Iterable[str]) -> None:
        """One request, which takes its time."""
        read, written = tokens_in(prompt), tokens_in(answer)
        self.prompts.append(read)
        self.answers.append(written)
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(SECS + read / READ_A_SEC + written / WRITTEN_A_SEC)
        self.asked.append((began, asyncio.get_running_loop().time()))

    def secs(self) -> float:
        """How long at least one request was under way."""
        total, until = 0.0, float("-inf")
        for began, ended in sorted(self.asked):
            total += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return total
