"""`replan tasks cancel|pause|hint|retry|judge`: what a person can do to a task that has not ended, whichever process drives it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.commands.answers import By, go_on
from replan.cli.commands.store.choosing import UNFINISHED, Status, WaitingFor, chosen, tell_row
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import SomeTaskNames, TaskName, TaskNames, for_each
from replan.cli.terminal.terminal import Out, own_stdout, say
from replan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replan.app import Replan

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the task.")]


def cancel(
    task_ids: SomeTaskNames = None,
    status: Status = None,
    waiting_for: WaitingFor = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Cancel those that --status and --waiting-for choose; without it, only say which."
        ),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded with the task.")] = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Ask tasks to end, whichever process drives them."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.cli.terminal.words import counted
    from replan.core.state.task import ENDED

    if bool(task_ids) == bool(status or waiting_for):
        raise InputError("say which tasks: their ids, or --status and --waiting-for")

    async def ask(out: Out) -> bool:
        async with open_stored(settings_of(config), db) as replan:
            names = list(task_ids or ())
            if not names:
                picked = await chosen(replan, status or [UNFINISHED], waiting_for)
                open_ = [one for one in picked if one.row.status not in ENDED]
                if not yes:
                    for one in open_:
                        tell_row(out, one)
                    say(f"would cancel {counted(len(open_), 'task')}; --yes does it")
                    return True
                if not open_:
                    say("no task is chosen by that: none is cancelled")
                names = [one.row.task_id for one in open_]

            async def end(found: str) -> str:
                await replan.cancel(found, reason=reason, by=by)
                over = (await replan.summary(found)).status in ENDED
                said = f"{found} has been cancelled" if over else f"cancellation requested for {found}"
                return f"{said}; see {again('tasks', 'show', found)}"

            return await for_each(replan, names, end)

    with own_stdout() as out:
        well = asyncio.run(ask(out))
    raise typer.Exit(0 if well else 2)


def pause(
    task_ids: TaskNames,
    now: Annotated[
        bool, typer.Option("--now", help="Cut off what runs, as a crash would, in place of letting it end.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Let tasks stand still: what runs comes to its end, nothing new is started. `tasks resume` goes on with them."""

    async def act(replan: Replan, found: str) -> str:
        await replan.pause(found, reason, by, now=now)
        stands = (await replan.summary(found)).status == "waiting"
        soon = "at once" if now else "as soon as what runs has ended"
        said = f"{found} is paused" if stands else f"{found} stands still {soon}"
        return f"{said}; go on with it: {again('tasks', 'resume', found)}"

    _do(task_ids, config, db, act)


def hint(
    task_id: TaskName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be heeded, in quotes.")],
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Give a task a hint: the next reflection or plan, and every later prompt, is told."""

    async def act(replan: Replan, found: str) -> str:
        await replan.hint(found, text, by)
        asked = (await replan.result(found)).waiting_for
        waits = [one for one in asked if one.id and one.kind not in ("approval", "review", "callback")]
        if waits:
            return f"kept for every later prompt; it still waits for an answer: {again('tasks', 'answer', found, 'TEXT')}"
        return "given: the next reflection or plan is told"

    _do([task_id], config, db, act)


def retry(
    task_id: TaskName,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The id of a step that has failed.")],
    reason: Reason = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Try a failed step again as planned, with all that was left out because of it."""

    async def act(replan: Replan, found: str) -> str:
        await replan.retry_step(found, step, reason, by)
        return await go_on(replan, found, f"{step} is to be tried again")

    _do([task_id], config, db, act)


def judge(
    task_id: TaskName,
    hint: Annotated[str, typer.Option("--hint", metavar="TEXT", help="What the judge is to heed.")] = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Have what a task has done judged again, without any of it being done again."""

    async def act(replan: Replan, found: str) -> str:
        await replan.judge_again(found, hint, by)
        return await go_on(replan, found, "it is to be judged again")

    _do([task_id], config, db, act)


def _do(
    task_ids: list[str], config: Path | None, db: str | None, act: Callable[[Replan, str], Awaitable[str]]
) -> None:
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def done() -> bool:
        async with open_stored(settings_of(config), db) as replan:
            return await for_each(replan, task_ids, lambda found: act(replan, found))

    with own_stdout():
        well = asyncio.run(done())
    raise typer.Exit(0 if well else 2)
