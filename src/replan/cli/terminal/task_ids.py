"""Tasks as people name them: by id, by the beginning of one, or as the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal.remote.meant import meant, shown
from replan.cli.terminal.terminal import report_error, say
from replan.core.words import some
from replan.errors import InputError, ReplanError, TaskNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from replan.app import Replan

LAST = "last"
MOST_LOOKED_AT = 10_000
SHORTEST = 3
"""Characters of a beginning, `task_` apart."""


async def full_id(replan: Replan, name: str) -> str:
    """The id of the task that is meant; `InputError` where several are, `TaskNotFound` names the nearest."""
    if name != LAST:
        try:
            return (await replan.summary(name)).task_id
        except TaskNotFound:
            pass
    ids = [row.task_id for row in await replan.tasks(limit=1 if name == LAST else MOST_LOOKED_AT)]
    if name == LAST:
        if not ids:
            raise InputError(f"there is no last task: {shown(replan)} has none yet")
        return ids[0]
    if (found := one_of(name, ids)) is not None:
        return found
    from difflib import get_close_matches

    near = get_close_matches(name, ids, 1, cutoff=0.8)
    raise TaskNotFound(name, nearest=near[0] if near else None, where=shown(replan))


def one_of(name: str, ids: Sequence[str]) -> str | None:
    """The one of these that is so, or begins so; `InputError` where several do."""
    if name in ids:
        return name
    found = [one for one in ids if one.startswith((name, f"task_{name}"))]
    if found and len(name.removeprefix("task_")) < SHORTEST:
        raise InputError(
            f"{name!r} is too short for the beginning of an id: write {SHORTEST} characters of it at least, `task_` apart"
        )
    if len(found) > 1:
        raise InputError(
            f"{name!r} is the beginning of several tasks: {some(found, 5)}; write more of the id"
        )
    return found[0] if found else None


async def for_each(replan: Replan, names: Sequence[str], act: Callable[[str], Awaitable[str]]) -> bool:
    """Do it to each of these tasks, and tell what was done; False if it could not be done to some of several."""
    if len(names) == 1:
        say(await act(await full_id(replan, names[0])))
        return True
    well = True
    for name in names:
        try:
            say(await act(await full_id(replan, name)))
        except ReplanError as error:
            report_error(str(error))
            well = False
    return well


def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest tasks whose ids begin so, for the shell's completion; nothing where they cannot be read."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.cli.terminal.words import clean

    async def read() -> list[tuple[str, str]]:
        meant(ctx.params.get("server"))
        async with open_stored(settings_of(ctx.params.get("config")), ctx.params.get("db")) as replan:
            rows = await replan.tasks(limit=200)
        found = [(row.task_id, clean(row.description, 50)) for row in rows]
        found.insert(0, (LAST, "the newest task"))
        return [one for one in found if one[0].startswith((incomplete, f"task_{incomplete}"))][:30]

    try:
        return asyncio.run(read())
    except Exception:  # noqa: BLE001 - a shell that completes shows no errors
        return []


TaskName = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The task's id, the beginning of one, or `last`.", autocompletion=complete
    ),
]

TaskNames = Annotated[
    list[str],
    typer.Argument(
        metavar="ID…", help="Their ids, the beginnings of them, or `last`.", autocompletion=complete
    ),
]
SomeTaskNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID…]",
        help="Their ids, the beginnings of them, or `last`.",
        autocompletion=complete,
        show_default=False,
    ),
]
