"""Limits of a task: asked before each call, with what is in flight already counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from replan.core.limits.policy import Budget
from replan.core.limits.prices import total
from replan.core.types import Usage

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


def limit_reached(
    budget: Budget,
    usage: Usage,
    *,
    what: Literal["llm", "tool", "round"],
    rounds: int = 0,
    asked: Usage = _NOTHING,
) -> str:
    """The limit that forbids one more of `what`, as `name = value`; empty if there is none. 0 allows nothing.

    `asked`: what is known beforehand of a model call, which has to fit into the limit.
    """
    next_one: dict[str, float] = {}
    if what == "llm":
        tokens = usage.input_tokens + usage.output_tokens
        used = {"max_llm_calls": usage.llm_calls, "max_tokens": tokens, "max_cost_usd": usage.cost_usd}
        next_one = {"max_tokens": asked.input_tokens, "max_cost_usd": asked.cost_usd}
    elif what == "tool":
        used = {"max_tool_calls": usage.tool_calls}
    else:
        used = {"max_rounds": rounds}
    for name, amount in used.items():
        allowed = getattr(budget, name)
        if allowed is not None and (amount >= allowed or amount + next_one.get(name, 0) > allowed):
            return f"{name} = {in_digits(allowed)}"
    return ""


def in_digits(amount: float) -> str:
    """An amount as people read it: never as `1e+06`."""
    return f"{amount:g}" if amount < 1_000_000 else f"{amount:.0f}"


class Limit(NamedTuple):
    """One limit that is set: its name, what it counts, how much was used, and how much is allowed."""

    name: str
    words: str
    used: float
    allowed: float


def limits(budget: Budget, usage: Usage, *, rounds: int, secs: float) -> list[Limit]:
    """The limits that are set; `secs` and `rounds` are what was used of these."""
    every = [
        ("max_llm_calls", "model calls", usage.llm_calls, budget.max_llm_calls),
        ("max_tokens", "tokens", usage.input_tokens + usage.output_tokens, budget.max_tokens),
        ("max_cost_usd", "dollars", usage.cost_usd, budget.max_cost_usd),
        ("max_tool_calls", "tool calls", usage.tool_calls, budget.max_tool_calls),
        ("max_rounds", "rounds", rounds, budget.max_rounds),
        ("task_timeout_secs", "seconds", round(secs, 1), budget.task_timeout_secs),
    ]
    return [Limit(name, words, used, allowed) for name, words, used, allowed in every if allowed is not None]


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
