"""`replan tasks review`: the plan that waits for a person's yes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.commands.answers import By, go_on
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import Out, own_stdout, say
from replan.cli.terminal.words import clean
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.config import Settings
    from replan.core.report.held_plan import HeldPlan
    from replan.core.types import JsonObject


def review(
    task_id: TaskName,
    show: Annotated[
        bool,
        typer.Option("--show", help="Print the plan and what it would do, and agree to nothing (default)."),
    ] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Have it carried out as it is.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Have the task planned anew.")] = False,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="TEXT", help="Why not, or why another plan; the next plan is made with it."
        ),
    ] = "",
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Have this one carried out in its place (JSON; - for stdin), once it has passed every check.",
        ),
    ] = None,
    tools: options.Tools = None,
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """Look at the plan that waits; agree to it, refuse it, or give another one."""
    import asyncio

    from replan.cli.terminal.inputs import plan_file
    from replan.cli.terminal.opening import settings_of

    said = [
        name
        for name, given in (("--show", show), ("--approve", approve), ("--reject", reject), ("--plan", plan))
        if given
    ]
    if len(said) > 1:
        raise InputError(f"{' and '.join(said)} exclude each other: give one of them")
    if reason and not (reject or plan):
        raise InputError("--reason goes with --reject or --plan")
    given = None if plan is None else plan_file(plan)
    settings = settings_of(config)
    with own_stdout() as out:
        if not (approve or reject or given):
            tell_held(out, asyncio.run(_look(task_id, settings, db)), json=json)
            return
        say(
            asyncio.run(
                _say(task_id, settings, db, given, approve or given is not None, reason, by, tools or [])
            )
        )


async def _look(task_id: str, settings: Settings, db: str | None) -> HeldPlan:
    from replan.cli.terminal.opening import open_stored

    async with open_stored(settings, db) as replan:
        return await replan.held_plan(await full_id(replan, task_id))


async def _say(
    task_id: str,
    settings: Settings,
    db: str | None,
    plan: JsonObject | None,
    approved: bool,
    reason: str,
    by: str | None,
    tools: list[str],
) -> str:
    from replan.cli.terminal.opening import open_stored
    from replan.cli.terminal.remote.meant import is_service
    from replan.config.whoever import whoever

    done = (
        "rejected: the task is planned anew"
        if not approved
        else "agreed"
        if plan is None
        else "agreed to that plan"
    )

    async def speak(replan: Replan, found: str) -> None:
        await replan.review(found, approved, plan=plan, reason=reason, by=whoever(by))

    async with open_stored(settings, db) as stored:
        found = await full_id(stored, task_id)
        if plan is None or is_service(stored):
            await speak(stored, found)
            return await go_on(stored, found, done)
        past = await stored.history(found)
        seal_key = await stored.service.parts.store.seal_key()
    from replan.cli.terminal.going_on import Given
    from replan.cli.terminal.opened_again import opened_again
    from replan.core.begun import begun_with
    from replan.core.state.fold import fold
    from replan.wiring import database

    place = database(db if db is not None else settings.database_service.connection_string)
    opened = opened_again(  # a plan is checked with the tools that the task goes on with
        found, begun_with(past), settings, Given(tools, None, None, None, None), fold(past), calls=False, seal_key=seal_key, db=str(place),
    )  # fmt: skip
    async with opened.replan as replan:
        await speak(replan, found)
        return await go_on(replan, found, done)


def tell_held(out: Out, held: HeldPlan, *, json: bool = False) -> None:
    """The plan as JSON on stdout, to be changed and given back; beside it what it would do."""
    if json:
        out.json(held.model_dump(mode="json"))
        return
    for line in held_lines(held):
        say(line)
    out.json(held.plan.model_dump(mode="json", exclude_defaults=True))
    say(f"to agree:  {again('tasks', 'review', held.task_id, '--approve')}")
    say(f"to refuse: {again('tasks', 'review', held.task_id, '--reject')} --reason TEXT")
    say(f"to change: {again('tasks', 'review', held.task_id, '--plan')} FILE")


def held_lines(held: HeldPlan) -> list[str]:
    from replan.core.limits.outlook import outlook_words

    lines = [f"plan {held.plan.version}: {clean(outlook_words(held.outlook), 2_000)}"]
    if held.outlook.critical_path:
        lines.append(f"  longest way: {clean(' → '.join(held.outlook.critical_path[:50]), 1_000)}")
    if held.changes.before is not None:
        lines.append(f"  beside plan {held.changes.before}:")
        lines += [f"    {clean(line, 1_000)}" for line in held.changes.lines()[:200]]
    lines += [f"  what was given in its place: {clean(one, 1_000)}" for one in held.problems]
    return lines
