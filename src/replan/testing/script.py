"""Answers written beforehand, by the contract name of the schema."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from replan.errors import ReplanError

Q = TypeVar("Q")
Written: TypeAlias = "dict[str, Any] | str | BaseException"
"""A JSON object, a text as a model would write it, or an error to raise."""
Answer: TypeAlias = "Written | Callable[[Q], Written]"
Answers: TypeAlias = "Mapping[str, Answer[Q] | Sequence[Answer[Q]]]"

SCHEMA_NAMES = (
    "tool_selection",
    "execution_plan",
    "step_answer",
    "step_repair",
    "step_reflection",
    "overall_reflection",
    "evaluation",
    "workflow_slots",
)
"""Every schema name that Replan asks for."""


class ScriptError(ReplanError):
    """The script holds no further answer for what was asked: a fault of the test, not of a model."""


class Script(Generic[Q]):
    """Hands out answers. A list is used up in order; anything else answers every time."""

    def __init__(self, answers: Answers[Q] | Callable[[Q], Written]) -> None:
        self._every = answers if callable(answers) else None
        self._answers: dict[str, Any] = {} if callable(answers) else dict(answers)
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    def next(self, schema_name: str, request: Q) -> str:
        """The text of the next answer; raises it where it is an error, and `ScriptError` past the end."""
        if self._every is not None:
            return _text(self._every(request))
        if schema_name not in self._answers:
            known = ", ".join(sorted(self._answers)) or "nothing"
            raise ScriptError(f"asked for {schema_name!r}, but the script has answers for {known} only")
        entry = self._answers[schema_name]
        if isinstance(entry, Sequence) and not isinstance(entry, str):
            with self._lock:
                position = self._used.get(schema_name, 0)
                self._used[schema_name] = position + 1
            if position >= len(entry):
                raise ScriptError(
                    f"asked for {schema_name!r} {position + 1} times, but the script has {len(entry)} "
                    f"{'answer' if len(entry) == 1 else 'answers'} for it"
                )
            entry = entry[position]
        return _text(entry(request) if callable(entry) else entry)


def _text(written: Any) -> str:
    if isinstance(written, BaseException):
        raise written
    if isinstance(written, str):
        return written
    return json.dumps(written, ensure_ascii=False)
