"""What ends or halts a run from inside."""

from __future__ import annotations

from typing import Literal

from replan.core.limits.budget import Reached


class BudgetReached(Exception):
    """A limit forbids the next call. The text is `name = value`."""

    def __init__(self, limit: Reached) -> None:
        super().__init__(limit.words)
        self.limit = limit


class Halted(Exception):
    """A task that has come to a plan cannot ask its model: it waits until it is resumed.

    `because`: its endpoint refuses the `key`, or the `model` cannot be reached, also not on further tries.
    """

    def __init__(self, reason: str, because: Literal["key", "model"]) -> None:
        super().__init__(reason)
        self.because = because
