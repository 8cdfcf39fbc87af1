"""Replan as a tool of LangChain's agents (langchain-core ≥ 1)."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from pydantic import BaseModel, Field

from replan.app import Replan
from replan.errors import InputError
from replan.inside.text import DESCRIPTION, answer_text, failure_text, id_of


class _Task(BaseModel):
    task: str = Field(description="what has to be done, in words")
    tool_call_id: Annotated[str, InjectedToolCallId]


class _Alike:
    """Which call of its message a call is, among those that the model has named alike ("call_0") and that ask for the same.

    A `ToolNode` makes one `ToolRuntime` for each call of the message, and all of them for one run of the node, which
    they name by one `execution_info`. So a call that is made again (by a wrapper) is the one it was, and a node that is
    run once more, even beside its first run, counts from the first again.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[weakref.ref[Any]]] = {}

    def position(self, name: str, runtime: Any) -> int:
        """From 1. Where nothing tells two calls apart, they are one."""
        run = getattr(runtime, "execution_info", None)
        if run is None:
            return 1
        known = self._known.setdefault(name, [])
        calls = [one for ref in list(known) if (one := ref()) is not None and one.execution_info is run]
        for position, one in enumerate(calls, start=1):
            if one is runtime:
                return position
        known.append(weakref.ref(runtime, lambda ref: self._forget(name, ref)))
        return len(calls) + 1

    def _forget(self, name: str, gone: weakref.ref[Any]) -> None:
        left = [ref for ref in self._known.get(name, ()) if ref is not gone]
        if left:
            self._known[name][:] = left
        else:
            self._known.pop(name, None)


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
    and a later turn of the thread has tasks of its own, whatever its model calls its calls; two calls of one message that
    it names alike are told apart where a `ToolNode` makes them. Elsewhere each call is a task of its own. The caller's cancellation cancels the task. Async only (`ainvoke`).
    """

    alike = _Alike()

    async def run_task(
        task: str,
        tool_call_id: str,
        config: RunnableConfig,
        runtime: Annotated[
            Any, InjectedToolArg
        ] = None,  # LangGraph's `ToolRuntime`, where its ToolNode calls
    ) -> tuple[str, dict[str, Any]]:
        at = config.get("configurable") or {}
        thread, node_run = at.get("thread_id"), at.get("checkpoint_ns")
        # Models call their calls as they like ("call_0" each time); the node's run is LangGraph's own.
        known = thread and node_run and tool_call_id
        task_id = id_of("tool", str(thread), str(node_run), tool_call_id, task) if known else None
        if task_id is not None and (position := alike.position(task_id, runtime)) > 1:
            task_id = f"{task_id}-{position}"
        try:
            result = await replan.run(task, task_id=task_id, **(submit or {}))
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
