"""Answers that come after their call was given up: the work went on, in a thread or task of this process.

They outlive the drive that made the call, so that a task that is taken up again in this process can wait for them; they
end with the process. While one is on its way nothing else may settle what became of its call (specification §5).
"""

from __future__ import annotations

import asyncio
from typing import Any

from replan.core.state.task import TaskName

Named = tuple[TaskName, str]
"""A task and a call's key."""
MOST_KEPT = 1_000
"""Answers that have come and were not asked for: the oldest are forgotten."""


class LateAnswers:
    """The late answers of one process, by task and call."""

    __slots__ = ("_coming",)

    def __init__(self) -> None:
        self._coming: dict[Named, asyncio.Future[Any]] = {}

    def expect(self, named: Named, answer: asyncio.Future[Any]) -> None:
        """An answer to this call is on its way; it ends as the work ends."""
        self._coming[named] = answer
        if len(self._coming) > MOST_KEPT:
            done = [name for name, one in self._coming.items() if one.done()]
            for name in done[: len(self._coming) - MOST_KEPT]:
                del self._coming[name]

    def of(self, named: Named) -> asyncio.Future[Any] | None:
        """The answer that is on its way, or has come and was not taken."""
        found = self._coming.get(named)
        if found is not None and _of_another_loop(found):
            del self._coming[named]
            return None
        return found

    def take(self, named: Named) -> None:
        """The answer has been heard: it stands for nothing any more."""
        self._coming.pop(named, None)


def _of_another_loop(answer: asyncio.Future[Any]) -> bool:
    return answer.get_loop() is not asyncio.get_running_loop()
