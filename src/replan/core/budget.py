"""Limits of a task: asked before each call, with what is in flight already counted."""

from __future__ import annotations

from typing import Literal

from replan.core.policy import Budget
from replan.core.types import Usage


def limit_reached(
    budget: Budget, usage: Usage, *, what: Literal["llm", "tool", "round"], rounds: int = 0
) -> str:
    """The limit that forbids one more of `what`, as `name = value`; empty if there is none. 0 allows nothing."""

    if what == "llm":
        tokens = usage.input_tokens + usage.output_tokens
        used = {"max_llm_calls": usage.llm_calls, "max_tokens": tokens, "max_cost_usd": usage.cost_usd}
    elif what == "tool":
        used = {"max_tool_calls": usage.tool_calls}
    else:
        used = {"max_rounds": rounds}
    for name, amount in used.items():
        allowed = getattr(budget, name)
        if allowed is not None and amount >= allowed:
            return f"{name} = {allowed:g}"
    return ""
