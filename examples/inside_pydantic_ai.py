"""Replan as a tool of a Pydantic AI agent: the agent talks, Replan does what has several steps.

    pip install '.[models]'                  # in a clone
    python examples/inside_pydantic_ai.py

Both models are scripted, so that it runs without any; put `Agent("openai:…")` and `Replan("openai:…")` in their place.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from replan import Replan, tool
from replan.inside import as_pydantic_ai_tool
from replan.testing import ScriptedModel

STOCK = {"nuts": 40, "bolts": 25}


@tool(effect="reads")
def count(part: str) -> int:
    """How many of a part there are."""
    return STOCK[part]


@tool(effect="reads")
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


PLANNER = ScriptedModel(
    {
        "tool_selection": {"selected_tools": ["count", "add"]},
        "execution_plan": {
            "steps": [
                {"step_id": "nuts", "tool": "count", "parameters": {"part": "nuts"}},
                {"step_id": "bolts", "tool": "count", "parameters": {"part": "bolts"}},
                {
                    "step_id": "sum",
                    "tool": "add",
                    "parameters": {"a": "${nuts.output}", "b": "${bolts.output}"},
                },
            ]
        },
    }
)


def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What a model would say: first that the task be run, then its result."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"There are {last.content} parts in all.")])
    return ModelResponse([ToolCallPart("run_task", {"task": "Count nuts and bolts, and add them up"})])


async def ask(question: str, db: str | Path | None = None) -> str:
    async with Replan(PLANNER, tools=[count, add], db=db, evaluation="steps") as replan:
        agent = Agent(FunctionModel(talk), tools=[as_pydantic_ai_tool(replan)])
        return (await agent.run(question)).output


if __name__ == "__main__":
    print(asyncio.run(ask("How many parts are there?")))
