"""What callers in this process ask of a task's answer beyond its schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

AnswerCheck: TypeAlias = Callable[[Any], Sequence[str]]
"""What is wrong with an answer, in words."""


class AnswerChecks:
    """By task, the check of each caller that waits for its answer: an answer has to pass them all."""

    def __init__(self) -> None:
        self._checks: dict[str, list[AnswerCheck]] = {}

    def hold(self, task_id: str, check: AnswerCheck) -> None:
        """For a task whose request is the caller's own: an id alone may be another's."""
        self._checks.setdefault(task_id, []).append(check)

    def release(self, task_id: str, check: AnswerCheck) -> None:
        """The caller waits no longer. One that was never held changes nothing."""
        left = [one for one in self._checks.pop(task_id, ()) if one is not check]
        if left:
            self._checks[task_id] = left

    def problems(self, task_id: str, answer: Any) -> list[str]:
        """What is wrong with an answer, in words; empty if nothing."""
        return [problem for check in self._checks.get(task_id, ()) for problem in check(answer)]
