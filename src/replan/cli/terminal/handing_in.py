"""A new task from its options: what is asked for, checked as far as it can be before there is a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from replan.app import Replan


class NewTask(NamedTuple):
    """A task's words, and the keywords that it is submitted with."""

    words: str
    request: dict[str, Any]

    @property
    def plan(self) -> dict[str, Any] | None:
        given: dict[str, Any] | None = self.request["plan"]
        return given


def new_task(
    text: list[str] | None,
    plan: Path | None,
    metadata: list[str] | None,
    secret: list[str] | None,
    **request: Any,
) -> NewTask:
    """The task that the options describe; `InputError` where they describe none. `request`: keywords of `submit`."""
    from replan.cli.terminal.inputs import metadata_of, one_text, plan_file, secrets_of, task_text

    given = plan_file(plan) if plan else None
    words = task_text(one_text(text), given, plan)
    hidden = secrets_of(secret or [])
    return NewTask(
        words, {"metadata": metadata_of(metadata or []), "secrets": hidden, "plan": given, **request}
    )


async def hand_in(replan: Replan, task: NewTask) -> str:
    """The id of the task, which is stored by then. A bad plan is a bad input: said before there is a task."""
    from replan.cli.terminal.opening import tell_tool_problems

    tell_tool_problems(replan)
    task = await known_before(replan, task)
    if task.plan is not None or task.request.get("workflow") is not None:
        named = (
            "metadata",
            "plan",
            "secrets",
            "evaluation",
            "session_id",
            "previous_task_id",
            "workflow",
            "slots",
        )
        checked = {name: task.request[name] for name in named if name in task.request}
        await replan.plan(task.words, **checked)
    return await replan.submit(task.words, **task.request)


async def known_before(replan: Replan, task: NewTask) -> NewTask:
    """The task with the whole id of the one that it follows, which may be given in short."""
    from replan.cli.terminal.task_ids import full_id

    given = task.request.get("previous_task_id")
    if given is None:
        return task
    return task._replace(request={**task.request, "previous_task_id": await full_id(replan, given)})
