"""What a task is called for a caller in another framework, and what that caller is told of it."""

from __future__ import annotations

import json
from typing import Any

from replan.core.ids import digest
from replan.core.report.result import TaskResult

DESCRIPTION = (
    "Plans and carries out a task of several steps with its own tools, repairs what fails on the way, and gives "
    "the checked result. Say in words what has to be done, with every detail that matters."
)


def id_of(kind: str, *parts: str) -> str:
    """A task id that is the same for the same place of the same run."""
    content = "\x00".join(parts)
    return f"{kind}-{digest(content)}"


def answer_text(value: Any) -> str:
    """The answer as a model reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def failure_text(result: TaskResult) -> str:
    """Why there is no answer, and what a person could do."""
    if result.waiting_for:
        asked = "; ".join(one.text for one in result.waiting_for)
        return f"task {result.task_id!r} waits for a person: {asked}"
    if result.failure is None:
        return f"task {result.task_id!r} is {result.status}"
    advice = "".join(f"; {one}" for one in result.failure.advice)
    return f"task {result.task_id!r} {result.status}: {result.failure.reason}{advice}"
