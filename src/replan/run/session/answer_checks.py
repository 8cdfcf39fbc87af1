"""What callers in this process ask of a task's answer beyond its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from replan.core.state.task import TaskName

AnswerCheck: TypeAlias = Callable[[Any], Sequence[str]]
"""What is wrong with an answer, in words."""


class AnswerChecks:
    """By task, the check of each caller that waits for its answer: an answer has to pass them all."""

    def __init__(self) -> None:
        self._checks: dict[TaskName, list[AnswerCheck]] = {}

    @contextmanager
    def held(self, name: TaskName, check: AnswerCheck) -> Iterator[None]:
        """`with`: it holds inside, for a task whose request is the caller's own: an id alone may be another's."""
        self._checks.setdefault(name, []).append(check)
        try:
            yield
        finally:
            if left := [one for one in self._checks.pop(name, ()) if one is not check]:
                self._checks[name] = left

    def holds(self, name: TaskName) -> bool:
        return name in self._checks

    def problems(self, name: TaskName, answer: Any) -> list[str]:
        """What is wrong with an answer, in words; empty if nothing."""
        return [problem for check in self._checks.get(name, ()) for problem in check(answer)]
