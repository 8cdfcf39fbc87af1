"""Which of a step's calls is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replan.core.types import StepId

READING = "verify:"
"""Begins the action id of a reading that is made to find out about a call; no plan can have such an id."""
POLLING = "poll:"
"""Likewise of a reading that a wait for a condition makes."""


class Slot(NamedTuple):
    """Which of a step's calls: an action, an item of `for_each` (counted from 0), both, or the only one."""

    action_id: str | None = None
    item: int | None = None

    def words(self) -> str:
        """`action 'a', item 3`, counted as people do, from 1; empty for the only call."""
        parts = [] if self.action_id is None else [f"action {self.action_id!r}"]
        return ", ".join([*parts, *([] if self.item is None else [f"item {self.item + 1}"])])

    def reading(self) -> Slot:
        """Where a reading about this call is recorded."""
        return Slot(READING + (self.action_id or ""), self.item)

    def polling(self) -> Slot:
        """Where a reading is recorded that this call makes as it waits for a condition."""
        return Slot(POLLING + (self.action_id or ""), self.item)

    def polled_for(self) -> Slot | None:
        """The call that such a reading is made for; None if this is no such reading."""
        if self.action_id is None or not self.action_id.startswith(POLLING):
            return None
        return slot_of(self.action_id.removeprefix(POLLING) or None, self.item)


ONLY = Slot()
"""The only call of a step."""


def slot_of(action_id: str | None, item: int | None) -> Slot:
    return ONLY if action_id is None and item is None else Slot(action_id, item)


def items_in_words(items: Sequence[int]) -> str:
    """`item 3`, `items 3, 7 and 9`, of many the first: counted as people do, from 1."""
    numbers = [str(item + 1) for item in items[:20]]
    more = [f"{len(items) - 20} more"] if len(items) > 20 else []
    told = [*numbers, *more]
    if len(told) == 1:
        return f"item {told[0]}"
    return f"items {', '.join(told[:-1])} and {told[-1]}"


Place = tuple[StepId, Slot]
"""One of the calls that a plan means."""
