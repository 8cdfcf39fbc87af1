"""One task for code that is not async."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack, overload

from replan.app.arguments import Arguments, TaskArguments, Tools
from replan.app.replan import Replan
from replan.core.report.result import TaskResult
from replan.run.service.sync import run_to_end

T = TypeVar("T")


@overload
def run_sync(
    text: str, tools: Tools = (), *, output_type: type[T], **arguments: Unpack[Arguments]
) -> TaskResult[T]: ...


@overload
def run_sync(
    text: str, tools: Tools = (), *, output_type: Any = None, **arguments: Unpack[Arguments]
) -> TaskResult[Any]: ...


def run_sync(
    text: str, tools: Tools = (), *, output_type: Any = None, **arguments: Unpack[Arguments]
) -> TaskResult[Any]:
    """Run one task from code that is not async; takes what `Replan` and `Replan.run` take, by the same names.

    Where an event loop runs already (a notebook), the task runs in a thread with a loop of its own.
    """
    given = dict(arguments)
    task: dict[str, Any] = {name: given.pop(name) for name in TaskArguments.__annotations__ if name in given}
    more: dict[str, Any] = given

    async def main() -> TaskResult[Any]:
        async with Replan(tools=tools, **more) as replan:
            return await replan.run(text, output_type=output_type, **task)

    return run_to_end(main)
