"""What people have said to a task, with what they were asked, and the two words that decide by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from replan.core.words import YES_NO

Word = Literal["", "stop", "done"]
"""`stop`: the task is to end as it is; `done`: it is done, whatever a model thinks. Anything else is an answer."""


class Said(NamedTuple):
    """One answer, rejection or change of a person."""

    asked: str
    answer: str
    by: str = ""

    def line(self) -> str:
        """Question and answer in one line; a hint was not asked for."""
        who = f" ({self.by})" if self.by else ""
        if not self.asked:
            return f"a hint{who}: {' '.join(self.answer.split())}"
        return f"asked: {' '.join(self.asked.split())} — answered{who}: {' '.join(self.answer.split())}"


_OUTCOMES = {
    **YES_NO,
    **dict.fromkeys(("it did", "happened"), True),
    **dict.fromkeys(("it did not", "did not happen"), False),
    **dict.fromkeys(
        (
            "cannot tell", "can't tell", "can not tell", "nobody can tell", "cannot say", "can't say", "do not know",
            "don't know", "i do not know", "i don't know", "unknown", "unclear", "not sure", "stop",
        ),
        None,
    ),
}  # fmt: skip


class NoOutcome(ValueError):
    """An answer that is none of yes, no and cannot tell."""


def outcome_of(answer: str) -> bool | None:
    """What an answer says of a call's outcome: yes, no, or (None) that nobody can tell. `NoOutcome` if it says neither."""
    said = " ".join(answer.replace("\u2019", "'").strip().rstrip(".!").casefold().split())
    if said not in _OUTCOMES:
        raise NoOutcome(
            f"the question is whether a call took effect: answer yes, no or cannot tell, not {answer!r}"
        )
    return _OUTCOMES[said]


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
