"""Which of a step's calls is meant."""

from __future__ import annotations

from typing import NamedTuple

from replan.core.types import StepId

READING = "verify:"
"""Begins the action id of a reading that is made to find out about a call; no plan can have such an id."""


class Slot(NamedTuple):
    """Which of a step's calls: an action, an item of `for_each`, both, or the only one."""

    action_id: str | None = None
    item: int | None = None

    def words(self) -> str:
        """`action 'a', item 3`; empty for the only call."""
        parts = [] if self.action_id is None else [f"action {self.action_id!r}"]
        return ", ".join([*parts, *([] if self.item is None else [f"item {self.item}"])])

    def reading(self) -> Slot:
        """Where a reading about this call is recorded."""
        return Slot(READING + (self.action_id or ""), self.item)


ONLY = Slot()
"""The only call of a step."""


def slot_of(action_id: str | None, item: int | None) -> Slot:
    return ONLY if action_id is None and item is None else Slot(action_id, item)


Place = tuple[StepId, Slot]
"""One of the calls that a plan means."""
