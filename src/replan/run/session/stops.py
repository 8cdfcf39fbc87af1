"""What ends or halts a run from inside."""

from __future__ import annotations

from typing import Literal


class BudgetReached(Exception):
    """A limit forbids the next call. The text is `name = value`."""

    @property
    def limit(self) -> str:
        return str(self)


class Halted(Exception):
    """A task that has come to a plan cannot ask its model: it waits until it is resumed.

    `because`: its endpoint refuses the `key`, or the `model` cannot be reached, also not on further tries.
    """

    def __init__(self, reason: str, because: Literal["key", "model"]) -> None:
        super().__init__(reason)
        self.because = because
