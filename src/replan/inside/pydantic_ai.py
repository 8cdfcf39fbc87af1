"""Replan as a tool of Pydantic AI's agents (pydantic-ai ≥ 2.68)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import ModelRetry, RunContext, Tool, ToolFailed

from replan.app import Replan
from replan.errors import InputError
from replan.inside.text import DESCRIPTION, failure_text, id_of

_MENDABLE = frozenset({"planning"})
"""Kinds of failure that another wording of the task can mend: nothing was done yet."""


def as_pydantic_ai_tool(
    replan: Replan,
    *,
    name: str = "run_task",
    description: str = DESCRIPTION,
    submit: Mapping[str, Any] | None = None,
) -> Tool[Any]:
    """A tool for `Agent(tools=[…])` with the one parameter `task`, which gives the task's answer.

    `submit`: further arguments of `Replan.run` (`metadata`, `timeout`, …). What another wording can mend (a task
    that cannot be read or planned) is a `ModelRetry`; every other failure, and a task that waits for a person, a
    `ToolFailed` that says why. The task's id follows from the agent's run, its step and the call in it: a run that is
    repeated with its `run_id` goes on with the same task, and a later step has a task of its own, whatever the model
    calls its calls. The run's cancellation cancels the task.
    """

    async def run_task(ctx: RunContext[Any], task: str) -> Any:
        call = (str(ctx.run_id), str(ctx.run_step), str(ctx.tool_call_id), task)
        task_id = id_of("tool", *call) if ctx.run_id and ctx.tool_call_id else None
        try:
            result = await replan.run(task, task_id=task_id, **(submit or {}))
        except InputError as error:
            raise ModelRetry(str(error)) from error
        if result.is_success:
            return result.output
        words = failure_text(result)
        mendable = result.failure is not None and result.failure.kind in _MENDABLE
        raise ModelRetry(words) if mendable else ToolFailed(words)

    return Tool(
        run_task, takes_ctx=True, name=name, description=description, metadata={"replan_effect": "once"}
    )
