"""Replan as a tool of LangChain's agents (langchain-core ≥ 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from pydantic import BaseModel, Field

from replan.app import Replan
from replan.errors import InputError
from replan.inside.text import DESCRIPTION, UnderWay, answer_text, failure_text, id_of


class _Task(BaseModel):
    task: str = Field(description="what has to be done, in words")
    tool_call_id: Annotated[str, InjectedToolCallId]


def as_langchain_tool(
    replan: Replan,
    *,
    name: str = "run_task",
    description: str = DESCRIPTION,
    submit: Mapping[str, Any] | None = None,
) -> StructuredTool:
    """A LangChain tool with the one parameter `task`, whose content is the task's answer.

    The artifact of its message is the whole result (`TaskResult`) as JSON values. `submit`: further arguments of
    `Replan.run` (`metadata`, `timeout`, …). A task that fails, or waits for a person, comes as a message with status
    "error" that says why. In a graph of LangGraph with a checkpointer the task's id follows from the thread, the graph's
    own id of the run of the node, and the call in it: a graph that goes on after a crash goes on with the same task,
    and a later turn of the thread has tasks of its own, whatever its model calls its calls, also where it calls two of one message alike. Elsewhere each call is a
    task of its own. The caller's cancellation cancels the task. Async only (`ainvoke`).
    """

    under_way = UnderWay()

    async def run_task(task: str, tool_call_id: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        at = config.get("configurable") or {}
        thread, node_run = at.get("thread_id"), at.get("checkpoint_ns")
        # Models call their calls as they like ("call_0" each time); the node's run is LangGraph's own.
        known = thread and node_run and tool_call_id
        task_id = id_of("tool", str(thread), str(node_run), tool_call_id, task) if known else None
        try:
            with under_way.named(task_id) as name_of_task:
                result = await replan.run(task, task_id=name_of_task, **(submit or {}))
        except InputError as error:
            raise ToolException(str(error)) from error
        if not result.is_success:
            raise ToolException(failure_text(result))
        return answer_text(result.output), result.model_dump(mode="json")

    return StructuredTool.from_function(
        coroutine=run_task,
        name=name,
        description=description,
        args_schema=_Task,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
