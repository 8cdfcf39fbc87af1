"""Limits of a task: asked before each call, with what is in flight already counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from replan.core.limits.policy import Budget
from replan.core.limits.prices import total
from replan.core.types import Usage
from replan.core.words import in_digits

_NOTHING = Usage()
WARN_AT = 0.8
"""Share of a limit from which on its use is told."""


def in_flight(usage: Usage, running: Sequence[int], more: Usage = _NOTHING) -> Usage:
    """What was used, with model calls that have not answered counted: at the size of their requests (tokens), and at the
    average cost so far. A call itself is counted when it starts; `more` is what further requests of these calls are."""
    answered = usage.llm_calls - len(running)
    each = usage.cost_usd / answered if answered > 0 else 0.0
    usage = total((usage, more))
    return usage.model_copy(
        update={
            "input_tokens": usage.input_tokens + sum(running),
            "cost_usd": usage.cost_usd + each * len(running),
        }
    )


class Counted(NamedTuple):
    """One thing that a task may be limited in: a field of `Budget`, what it counts, and what it is asked before."""

    name: str
    words: str
    asked_before: Literal["llm", "tool", "round", "time"]
    used: Callable[[Usage, int, float], float]
    """Of the usage, the rounds and the seconds so far."""


COUNTED = (
    Counted("max_llm_calls", "model calls", "llm", lambda usage, rounds, secs: usage.llm_calls),
    Counted(
        "max_tokens", "tokens", "llm", lambda usage, rounds, secs: usage.input_tokens + usage.output_tokens
    ),
    Counted("max_cost_usd", "dollars", "llm", lambda usage, rounds, secs: usage.cost_usd),
    Counted("max_tool_calls", "tool calls", "tool", lambda usage, rounds, secs: usage.tool_calls),
    Counted("max_rounds", "rounds", "round", lambda usage, rounds, secs: rounds),
    Counted("task_timeout_secs", "seconds", "time", lambda usage, rounds, secs: round(secs, 1)),
)
"""Every limit of a task, each in one line."""
_BEFORE = {what: [one for one in COUNTED if one.asked_before == what] for what in ("llm", "tool", "round")}


class Reached(NamedTuple):
    """A limit that is used up."""

    name: str
    allowed: float

    @property
    def words(self) -> str:
        """`max_rounds = 3`."""
        return f"{self.name} = {in_digits(self.allowed)}"


def limit_reached(
    budget: Budget,
    usage: Usage,
    *,
    what: Literal["llm", "tool", "round"],
    rounds: int = 0,
    asked: Usage = _NOTHING,
) -> Reached | None:
    """The limit that forbids one more of `what`; None if there is none. 0 allows nothing.

    `asked`: what is known beforehand of a model call, which has to fit into the limit.
    """
    for one in _BEFORE[what]:
        allowed = getattr(budget, one.name)
        if allowed is not None:
            amount = one.used(usage, rounds, 0)
            if amount >= allowed or amount + one.used(asked, 0, 0) > allowed:
                return Reached(one.name, allowed)
    return None


def exceeded(budget: Budget, usage: Usage) -> Reached | None:
    """The limit of model calls of which more is used than it allows; None if there is none."""
    for one in _BEFORE["llm"]:
        allowed = getattr(budget, one.name)
        if allowed is not None and one.used(usage, 0, 0) > allowed:
            return Reached(one.name, allowed)
    return None


class Limit(NamedTuple):
    """One limit that is set: its name, what it counts, how much was used, and how much is allowed."""

    name: str
    words: str
    used: float
    allowed: float


def limits(budget: Budget, usage: Usage, *, rounds: int, secs: float) -> list[Limit]:
    """The limits that are set; `secs` and `rounds` are what was used of these."""
    return [
        Limit(one.name, one.words, one.used(usage, rounds, secs), allowed)
        for one in COUNTED
        if (allowed := getattr(budget, one.name)) is not None
    ]


def left(budget: Budget, usage: Usage, *, rounds: int, secs: float) -> str:
    """What is left of each limit, in one line for a prompt."""
    told = [
        f"{in_digits(max(0.0, one.allowed - one.used))} of {in_digits(one.allowed)} {one.words}"
        for one in limits(budget, usage, rounds=rounds, secs=secs)
    ]
    return ", ".join(told) or "no limits are set"


def nearly_used(budget: Budget, usage: Usage, *, rounds: int, secs: float) -> list[Limit]:
    """The limits of which most is used."""
    return [
        one
        for one in limits(budget, usage, rounds=rounds, secs=secs)
        if one.used >= one.allowed * WARN_AT and one.allowed > 0
    ]
