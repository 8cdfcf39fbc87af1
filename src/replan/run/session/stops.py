"""What ends or halts a run from inside."""

from __future__ import annotations


class BudgetReached(Exception):
    """A limit forbids the next call. The text is `name = value`."""

    @property
    def limit(self) -> str:
        return str(self)


class KeyRefused(Exception):
    """The model's endpoint refuses the key of a task that has a plan: it waits until it is resumed with another one."""
