"""What people have said to a task, with what they were asked, and the two words that decide by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Word = Literal["", "stop", "done"]
"""`stop`: the task is to end as it is; `done`: it is done, whatever a model thinks. Anything else is an answer."""


class Said(NamedTuple):
    """One answer, rejection or change of a person."""

    asked: str
    answer: str
    by: str = ""

    def line(self) -> str:
        """Question and answer in one line."""
        who = f" ({self.by})" if self.by else ""
        return f"asked: {' '.join(self.asked.split())} — answered{who}: {' '.join(self.answer.split())}"


def word_of(answer: str) -> Word:
    """The deciding word that an answer consists of; a sentence that merely has it in it decides nothing."""
    match answer.strip().rstrip(".!").strip().casefold():
        case "stop":
            return "stop"
        case "done":
            return "done"
    return ""


def lines(said: Sequence[Said]) -> tuple[str, ...]:
    """Everything that was said, in its order."""
    return tuple(one.line() for one in said)
