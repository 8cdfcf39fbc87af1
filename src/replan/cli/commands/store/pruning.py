"""`replan tasks prune`: tasks that nobody needs any more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import own_stdout, say
from replan.cli.terminal.words import counted
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.cli.terminal.terminal import Out
    from replan.run.service.pruning import Pruned

_DAYS = {"m": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
_BYTES = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_MOST = 20


def prune(
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Nothing has happened in it for so long: 30d, 12h, 2w."
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only these; may be given several times."),
    ] = None,
    larger_than: Annotated[
        str | None,
        typer.Option(
            "--larger-than", metavar="SIZE", help="Its log and its outputs take more: 500K, 100M, 2G."
        ),
    ] = None,
    unfinished: Annotated[
        bool,
        typer.Option(
            "--unfinished", help="Also tasks that have not ended: what they have done is forgotten."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it, only say which.")] = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
    json: options.Json = False,
) -> None:
    """Remove tasks that have ended, by age, status and size, and give their space back; without --yes, say which."""
    import asyncio
    from typing import get_args

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.core.state.task import TaskStatus

    days = None if older_than is None else days_of(older_than)
    size = None if larger_than is None else bytes_of(larger_than)
    for name in status or []:
        if name not in get_args(TaskStatus):
            raise InputError(f"--status {name!r}: there are {', '.join(get_args(TaskStatus))}")
    if days is None and size is None and not status:
        raise InputError("say which tasks: --older-than 30d, --status failed, --larger-than 100M")

    async def work() -> Pruned:
        async with open_stored(settings_of(config), db) as replan:
            return await replan.prune(
                older_than_days=days,
                status=tuple(status or ()),  # type: ignore[arg-type]
                larger_than=size,
                unfinished=unfinished,
                dry_run=not yes,
            )

    with own_stdout() as out:
        found = asyncio.run(work())
        if json:
            out.json({**found._asdict(), "tasks": [task._asdict() for task in found.tasks], "removed": yes})
        else:
            _tell(out, found, removed=yes)


def _tell(out: Out, found: Pruned, *, removed: bool) -> None:
    from datetime import datetime

    for task in found.tasks[:_MOST]:
        when = datetime.fromtimestamp(task.updated).strftime("%Y-%m-%d %H:%M:%S")
        out.line(f"{task.task_id}  {when}  {task.status}  {task.size:,} bytes")
    if len(found.tasks) > _MOST:
        out.line(f"and {len(found.tasks) - _MOST} more")
    for ids, why in (
        (found.shared, "as forks that stay share their history"),
        (found.undelivered, "until a consumer of the log has got all of them"),
        (found.held, "as somebody drives them"),
        (found.known_by, "as others of their family that stay go by what they have done"),
    ):
        if ids:
            say(
                f"{counted(len(ids), 'task')} kept, {why}: {', '.join(ids[:5])}{', …' if len(ids) > 5 else ''}"
            )
    what = f"{counted(len(found.tasks), 'task')}, {found.freed:,} bytes"
    say(f"removed {what}" if removed else f"would remove {what}; --yes does it")


def days_of(text: str) -> float:
    """`30d`, `12h`, `2w`, `90m`."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([mhdw])", text.strip())
    if found is None:
        raise InputError(f"--older-than {text!r}: write a number and m, h, d or w, like 30d")
    return float(found[1]) * _DAYS[found[2]]


def bytes_of(text: str) -> int:
    """`500K`, `100M`, `2G`, with or without a B."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMG]?)B?", text.strip().upper())
    if found is None:
        raise InputError(f"--larger-than {text!r}: write a number of bytes, or one with K, M or G, like 100M")
    return int(float(found[1]) * _BYTES[found[2]])
