"""Tools that were written for LangChain, Pydantic AI and the OpenAI Agents SDK, in one plan.

    pip install . langchain-core pydantic-ai-slim openai-agents      # in a clone
    python examples/tools_of_others.py

No model is asked: the plan is given.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import agents
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import ModelRetry, Tool

from replan import Replan, TaskResult
from replan.tools.frameworks import LangChainSource, OpenAiAgentsSource, PydanticAiSource

PRICES = {"tea": 4.5, "coffee": 7.25}


@langchain_tool
def price_of(item: str) -> float:
    """What one item costs, in euros."""
    return PRICES[item]


def total(price: float, count: int) -> float:
    """The price of several."""
    if count < 1:
        raise ModelRetry("count has to be 1 or more")
    return price * count


@agents.function_tool
def receipt(item: str, amount: float) -> str:
    """A line for the receipt."""
    return f"{item}: {amount:.2f} EUR"


# No framework says what a call does to the world: without `effects`, each call counts and is never repeated.
TOOLS = [
    LangChainSource(price_of, effects={"price_of": "reads"}),
    PydanticAiSource(Tool(total, metadata={"replan_effect": "reads"})),
    OpenAiAgentsSource(receipt, effects={"receipt": "reads"}),
]


def plan(item: str, count: int) -> dict[str, Any]:
    steps = [
        {"step_id": "price", "tool": "price_of", "parameters": {"item": item}},
        {"step_id": "sum", "tool": "total", "parameters": {"price": "${price.output}", "count": count}},
        {"step_id": "line", "tool": "receipt", "parameters": {"item": item, "amount": "${sum.output}"}},
    ]
    return {"steps": steps}


async def buy(item: str, count: int, db: str | Path | None = None) -> TaskResult:
    async with Replan(tools=TOOLS, db=db) as replan:
        return await replan.run(f"Buy {count} {item}", plan=plan(item, count), evaluation="steps")


if __name__ == "__main__":
    item, count = sys.argv[1:] or ["tea", "3"]
    result = asyncio.run(buy(item, int(count)))
    print(result.output if result.succeeded else result.failure)
    raise SystemExit(0 if result.succeeded else 1)
