"""`replan tasks approve|reject|answer`: what a waiting task needs from a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli import options
from replan.cli.terminal import own_stdout, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replan.app import Replan

TaskName = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
Approval = Annotated[
    str | None,
    typer.Argument(metavar="APPROVAL", help="Which; not needed where only one is open.", show_default=False),
]
By = Annotated[str, typer.Option("--by", help="Who says so; recorded with the task.")]


def approve(
    task_id: TaskName,
    approval: Approval = None,
    parameters: Annotated[
        str | None,
        typer.Option("--parameters", metavar="JSON", help="Make the call with these instead of those shown."),
    ] = None,
    by: By = "replan tasks approve",
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Agree to a call that waits for a person's yes; what runs is what was shown."""
    from replan.cli.inputs import json_object

    given = None if parameters is None else json_object(parameters, "--parameters")
    _speak(
        task_id, config, db, lambda replan: replan.approve(task_id, approval, parameters=given, by=by),
        "approved",
    )  # fmt: skip


def reject(
    task_id: TaskName,
    approval: Approval = None,
    reason: Annotated[str, typer.Option("--reason", help="Why not; it is reflected on.")] = "",
    by: By = "replan tasks reject",
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Do not agree to a call that waits; the task looks for another way."""
    _speak(
        task_id, config, db, lambda replan: replan.reject(task_id, approval, reason=reason, by=by), "rejected"
    )


def answer(
    task_id: TaskName,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The answer; to a call's outcome yes, no or cannot tell.")
    ],
    question: Annotated[
        str | None, typer.Option("--question", metavar="ID", help="Which; not needed where only one is open.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="JSON", help="What a call that took effect has given."),
    ] = None,
    by: By = "replan tasks answer",
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Answer a question of a waiting task."""
    from replan.cli.inputs import json_value

    given = None if output is None else json_value(output, "--output")
    _speak(
        task_id, config, db, lambda replan: replan.answer(task_id, text, question, output=given, by=by),
        "answered",
    )  # fmt: skip


def _speak(
    task_id: str, config: Path | None, db: str | None, say_it: Callable[[Replan], Awaitable[None]], done: str
) -> None:
    """Write what a person says into the task's log, and tell who goes on."""
    import asyncio

    from replan.cli.opening import open_replan, settings_of

    async def write() -> bool:
        async with open_replan(settings_of(config), db=db) as replan:
            await say_it(replan)
            return (await replan.summary(task_id)).held

    with own_stdout():
        held = asyncio.run(write())
        after = "its driver goes on" if held else f"go on with `replan tasks resume {task_id}`"
        say(f"{done}; {after}")
