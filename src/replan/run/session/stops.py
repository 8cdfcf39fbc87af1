"""What ends a run from inside."""

from __future__ import annotations


class BudgetReached(Exception):
    """A limit forbids the next call. The text is `name = value`."""

    @property
    def limit(self) -> str:
        return str(self)
