"""Replan as a tool of the OpenAI Agents SDK (openai-agents ≥ 0.24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import FunctionTool, function_tool
from agents.tool_context import ToolContext

from replan.app import Replan
from replan.errors import InputError
from replan.inside.text import DESCRIPTION, failure_text


def as_openai_agents_tool(
    replan: Replan,
    *,
    name: str = "run_task",
    description: str = DESCRIPTION,
    submit: Mapping[str, Any] | None = None,
) -> FunctionTool:
    """A tool for `Agent(tools=[…])` with the one parameter `task`, which gives the task's answer.

    `submit`: further arguments of `Replan.run` (`metadata`, `timeout`, …). A failure, and a task that waits for a
    person, is a text that says why. Each call is a task of its own: the SDK names no run that could be found again.
    The run's cancellation cancels the task.
    """

    async def run_task(ctx: ToolContext[Any], task: str) -> Any:
        try:
            result = await replan.run(task, **(submit or {}))
        except InputError as error:
            return f"The task was not run: {error}"
        return result.output if result.is_success else f"There is no result: {failure_text(result)}"

    return function_tool(run_task, name_override=name, description_override=description)
