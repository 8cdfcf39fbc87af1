"""The tasks that are driven here just now, and whether they are getting on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Standing(NamedTuple):
    """How long a task has recorded nothing (0 while it asks a model), and whether a tool of it runs."""

    quiet_secs: float
    in_tool: bool


class UnderWay:
    """By task, how to ask about it."""

    def __init__(self) -> None:
        self._asked: dict[str, Callable[[], Standing]] = {}

    @contextmanager
    def holds(self, task_id: str, standing: Callable[[], Standing]) -> Iterator[None]:
        """`with`: the task is driven inside."""
        self._asked[task_id] = standing
        try:
            yield
        finally:
            del self._asked[task_id]

    def still_secs(self, task_ids: Collection[str]) -> float:
        """For how long none of them has got on while some tool of theirs runs; 0 if one may get on by itself."""
        if not task_ids or any(task_id not in self._asked for task_id in task_ids):
            return 0.0
        found = [self._asked[task_id]() for task_id in task_ids]
        return min(one.quiet_secs for one in found) if any(one.in_tool for one in found) else 0.0
