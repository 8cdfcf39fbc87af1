"""`replan tasks approve|reject|answer|signal`: what a waiting task needs from people, and from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.remote.meant import is_service, spoken_for
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import own_stdout, say
from replan.cli.terminal.words import clean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replan.app import Replan
    from replan.core.report.result import WaitingFor

Approval = Annotated[
    str | None,
    typer.Argument(metavar="APPROVAL", help="Which; not needed where only one is open.", show_default=False),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Who says so, for the log; default: the user.",
        show_default=False,
        callback=spoken_for,
    ),
]


def approve(
    task_id: TaskName,
    approval: Approval = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            "--parameters",
            metavar="JSON",
            help="Make the call with these over those shown; null leaves one out.",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the call in full, and agree to nothing.")
    ] = False,
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Agree to a call that waits for a person's yes; what runs is what was shown."""
    from replan.cli.terminal.inputs import json_object

    given = None if parameters is None else json_object(parameters, "--parameters")
    if show:
        _show(task_id, config, db, lambda replan, found: replan.approval(found, approval, parameters=given))
        return

    from replan.config.whoever import whoever

    async def agree(replan: Replan, found: str) -> str:
        return (
            f"approved: {call_words(await replan.approve(found, approval, parameters=given, by=whoever(by)))}"
        )

    _speak(task_id, config, db, agree)


def reject(
    task_id: TaskName,
    approval: Approval = None,
    reason: Annotated[str, typer.Option("--reason", help="Why not; it is reflected on.")] = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Do not agree to a call that waits; the task looks for another way."""

    from replan.config.whoever import whoever

    async def refuse(replan: Replan, found: str) -> str:
        await replan.reject(found, approval, reason=reason, by=whoever(by))
        return "rejected"

    _speak(task_id, config, db, refuse)


def answer(
    task_id: TaskName,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="The answer: to a call's outcome yes, no or cannot tell; to a step's question what fits it.",
        ),
    ],
    question: Annotated[
        str | None,
        typer.Option(
            "--question",
            metavar="ID",
            help="Which, or the step that asks; not needed where only one is open.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="JSON", help="What a call that took effect has given."),
    ] = None,
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Answer a question of a waiting task."""
    from replan.cli.terminal.inputs import json_value

    given = None if output is None else json_value(output, "--output")

    from replan.config.whoever import whoever

    async def say_it(replan: Replan, found: str) -> str:
        await replan.answer(found, text, question, output=given, by=whoever(by))
        return "answered"

    _speak(task_id, config, db, say_it)


def signal(
    task_id: TaskName,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="What the task has given out.")],
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="JSON", help="What has come of it: the output of its wait."),
    ] = None,
    by: By = "replan tasks signal",
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Tell a task that something outside has happened, by the token that it has given out for that."""
    from replan.cli.terminal.inputs import json_value

    given = None if data is None else json_value(data, "--data")

    from replan.config.whoever import whoever

    async def use(replan: Replan, found: str) -> str:
        new = await replan.signal(found, token, given, by=whoever(by))
        return "the callback is used" if new else "the callback was used with just that before"

    _speak(task_id, config, db, use)


_MOST_OF_AN_ITEM = 300


def call_words(one: WaitingFor, most: int | None = None) -> str:
    """The call as a person reads it; `most` characters of its parameters."""
    text = json.dumps(one.parameters, ensure_ascii=False, default=str)
    marks = ", ".join(f"{name} #{mark}" for name, mark in one.hidden.items())
    hidden = f" (not shown: {marks})" if marks else ""
    where = f"step {one.step_id}" if one.item is None else f"step {one.step_id}, item {one.item}"
    if one.item_value is not None:
        where += f": {clean(json.dumps(one.item_value, ensure_ascii=False, default=str), _MOST_OF_AN_ITEM)}"
    return f"{one.tool_id}({clean(text, most or len(text))}) in {where}{hidden}"


def _show(
    task_id: str, config: Path | None, db: str | None, look: Callable[[Replan, str], Awaitable[WaitingFor]]
) -> None:
    """Print a call that waits, in full."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def read() -> WaitingFor:
        async with open_stored(settings_of(config), db) as replan:
            return await look(replan, await full_id(replan, task_id))

    with own_stdout() as out:
        one = asyncio.run(read())
        out.line(call_words(one))
        for name, origins in one.origin.items():
            say(f"  {name}: {clean('; '.join(origin.words() for origin in origins), 1_000)}")


async def go_on(replan: Replan, found: str, done: str) -> str:
    """What was done, and who goes on with the task."""
    if is_service(replan):
        if await replan.is_paused(found):  # type: ignore[attr-defined]
            return f"{done}; it is paused, and goes on once that is over: {again('tasks', 'resume', found)}"
        return f"{done}; the service goes on with it"
    if (await replan.service.state(found)).pause is not None:
        return f"{done}; it is paused, and goes on once that is over: {again('tasks', 'resume', found)}"
    summary = await replan.summary(found)
    if summary.held:
        return f"{done}; the process that drives it goes on"
    if summary.queue:
        return f"{done}; {await replan.why_waiting(found) or 'a worker goes on with it'}"
    return f"{done}; continue: {again('tasks', 'resume', found)}"


def _speak(
    task_id: str, config: Path | None, db: str | None, say_it: Callable[[Replan, str], Awaitable[str]]
) -> None:
    """Write what a person says into the task's log, and tell what was done and who goes on."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def write() -> str:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)
            return await go_on(replan, found, await say_it(replan, found))

    with own_stdout():
        say(asyncio.run(write()))
