"""A row: one fault, what is right, and one reading of the facts that holds for everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.conformance.agents import POLLS
from bench.conformance.case import Facts


@dataclass(frozen=True)
class Row:
    """One fault."""

    ids: str
    """Its numbers; the first is its key."""
    program: str
    right: str
    words: Callable[[Facts], str]
    passes: Callable[[Facts], bool]

    @property
    def key(self) -> str:
        return self.ids.split()[0]

    def said(self, facts: Facts) -> str:
        if "still_going" in facts:
            polled = f"; {polling(facts)}" if "polls" in facts else ""
            return f"still going after {facts['still_going']} calls{polled}"
        return self.words(facts)

    def passed(self, facts: Facts) -> bool:
        return "still_going" not in facts and self.passes(facts)


def died(facts: Facts, name: str = "run") -> str:
    how = facts["died"]
    if how == "no end":
        return f"{name} never ended"
    return f"{name} died ({how})" if how else f"{name} went on"


def counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def times(count: int) -> str:
    return {0: "0 times", 1: "once"}.get(count, f"{count} times")


def polling(facts: Facts) -> str:
    return f"polling: {'ready' if polled(facts) else 'ended'} after {facts['polls']} polls"


def polled(facts: Facts) -> bool:
    return facts["polls"] == POLLS and not facts["poll_died"]
