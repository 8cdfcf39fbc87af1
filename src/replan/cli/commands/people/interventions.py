"""`replan tasks pause|hint|retry|judge`: what a person can do to a task that has not ended, whichever process drives it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.commands.answers import By, go_on
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import own_stdout, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replan.app import Replan

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the task.")]


def pause(
    task_id: TaskName,
    now: Annotated[
        bool, typer.Option("--now", help="Cut off what runs, as a crash would, in place of letting it end.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Let a task stand still: what runs comes to its end, nothing new is started. `tasks resume` goes on with it."""

    async def act(replan: Replan, found: str) -> str:
        await replan.pause(found, reason, by, now=now)
        stands = (await replan.summary(found)).status == "waiting"
        said = f"{found} is paused" if stands else f"{found} stands still as soon as what runs has ended"
        return f"{said}; go on with it: {again('tasks', 'resume', found)}"

    _do(task_id, config, db, act)


def hint(
    task_id: TaskName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be heeded, in quotes.")],
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Give a task a hint: the next reflection or plan, and every later prompt, is told."""

    async def act(replan: Replan, found: str) -> str:
        await replan.hint(found, text, by)
        waits = [one for one in (await replan.result(found)).waiting_for if one.kind != "approval"]
        if waits:
            return f"kept for every later prompt; it still waits for an answer: {again('tasks', 'answer', found, 'TEXT')}"
        return "given: the next reflection or plan is told"

    _do(task_id, config, db, act)


def retry(
    task_id: TaskName,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The id of a step that has failed.")],
    reason: Reason = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Try a failed step again as planned, with all that was left out because of it."""

    async def act(replan: Replan, found: str) -> str:
        await replan.retry_step(found, step, reason, by)
        return await go_on(replan, found, f"{step} is to be tried again")

    _do(task_id, config, db, act)


def judge(
    task_id: TaskName,
    hint: Annotated[str, typer.Option("--hint", metavar="TEXT", help="What the judge is to heed.")] = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Have what a task has done judged again, without any of it being done again."""

    async def act(replan: Replan, found: str) -> str:
        await replan.judge_again(found, hint, by)
        return await go_on(replan, found, "it is to be judged again")

    _do(task_id, config, db, act)


def _do(
    task_id: str, config: Path | None, db: str | None, act: Callable[[Replan, str], Awaitable[str]]
) -> None:
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def done() -> str:
        async with open_stored(settings_of(config), db) as replan:
            return await act(replan, await full_id(replan, task_id))

    with own_stdout():
        say(asyncio.run(done()))
