"""`replan tasks list|show|watch|result|output|plan|cancel|delete` and others: tasks of the store, from any process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.commands.answers import By, answer, approve, reject, signal
from replan.cli.commands.people.forks import fork
from replan.cli.commands.people.interventions import hint, judge, pause, retry
from replan.cli.commands.resume import resume
from replan.cli.commands.store.moving import export, import_
from replan.cli.commands.store.pruning import prune
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import Out, own_stdout, say

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.events import Record
    from replan.core.report.result import TaskResult
    from replan.run.service.forking import Kin

tasks_app = typer.Typer(
    name="tasks",
    help="List, show, watch, cancel, answer and resume tasks.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)


UNFINISHED = "unfinished"
MOST_LISTED = 10_000_000


@tasks_app.command(name="list")
def list_tasks(
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only these (`unfinished`: all that have not ended); may be given several times.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="How many at most; 0: all. What is left out is said.")
    ] = 20,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """List tasks, newest first."""
    import asyncio
    from typing import get_args

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.core.state.task import ENDED, TaskStatus
    from replan.errors import InputError

    every = get_args(TaskStatus)
    for name in status or []:
        if name not in (*every, UNFINISHED):
            raise InputError(f"--status {name!r}: there are {', '.join((*every, UNFINISHED))}")
    wanted = [name for name in status or () if name != UNFINISHED]
    if len(wanted) < len(status or ()):
        wanted += [name for name in every if name not in (*ENDED, *wanted)]

    async def read() -> list[Any]:
        async with open_stored(settings_of(config), db) as replan:
            return list(await replan.tasks(tuple(wanted), limit=limit + 1 if limit else MOST_LISTED))

    with own_stdout() as out:
        found = asyncio.run(read())
        if limit and len(found) > limit:
            del found[limit:]
            say(f"these are the {limit} newest, and there are more: `--limit 0` lists all")
        if json:
            out.json([row._asdict() for row in found])
            return
        if not found:
            say("no tasks" if not status else f"no tasks that are {' or '.join(status)}")
        for row in found:
            _row(out, row)


def _row(out: Out, row: Any) -> None:
    from datetime import datetime

    from replan.cli.terminal.words import clean

    when = datetime.fromtimestamp(row.created).strftime("%Y-%m-%d %H:%M:%S")
    held = " (running)" if row.held else " (given away to a file)" if row.given_away else ""
    out.line(f"{row.task_id}  {when}  {row.status}{held}  {clean(row.description, 80)}")


@tasks_app.command()
def show(
    task_id: TaskName,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
    events: options.Events = False,
) -> None:
    """Show what a task has done: its plan, every step, every call with its error."""
    import asyncio

    from replan.cli.commands.history import as_json, tell
    from replan.cli.terminal.opening import settings_of
    from replan.errors import TaskGivenAway

    with own_stdout() as out:
        records, held, why, kin, given_away = asyncio.run(_past(task_id, settings_of(config), db))
        if events:
            for record in records:
                out.json(record.wire(), compact=True)
        elif json:
            more = {"waits_for_worker": why, "given_away": given_away}
            out.json({**as_json(records, kin), **{name: said for name, said in more.items() if said}})
        else:
            away = str(TaskGivenAway(records[0].task_id, given_away)) if given_away else ""
            tell(out, records, held=held or bool(away), why=away or why, kin=kin)


@tasks_app.command()
def watch(
    task_id: TaskName,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", min=0, help="Events after this one only.")
    ] = 0,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Watch a task until it ends, whichever process drives it; Ctrl-C stops watching, not the task."""
    import asyncio

    from replan.cli.commands.report import tell_result
    from replan.cli.live.follow import watch as follow
    from replan.cli.live.show import show_for
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.cli.terminal.terminal import warn
    from replan.core.state.task import ENDED

    async def until_the_end(out: Out) -> TaskResult:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)  # no such task: told before anything is drawn
            summary = await replan.summary(found)
            if not summary.queue and not summary.held and summary.status not in (*ENDED, "queued", "waiting"):
                warn(f"no process drives this task now; continue it with: {again('tasks', 'resume', found)}")
            await follow(replan, found, show_for(quiet=quiet), out if events else None, after=after)
            return await replan.result(found)

    with own_stdout() as out:
        result = asyncio.run(until_the_end(out))
        tell_result(result, out, json=json, events=events)
    raise typer.Exit(of_result(result))


@tasks_app.command()
def result(
    task_id: TaskName, config: options.Config = None, db: options.Db = None, json: options.Json = False
) -> None:
    """Print the answer of a task that has ended, or what it waits for; the exit code is that of its end."""
    import asyncio

    from replan.cli.commands.report import tell_result
    from replan.cli.live.picture import PictureState
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.errors import InputError

    async def read() -> TaskResult:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)
            view = PictureState.of(await replan.history(found))
            if view.ended is None and view.status != "waiting":
                raise InputError(
                    f"task {found!r} has not ended ({view.status}). Wait for it: {again('tasks', 'watch', found)}\n"
                    f"or continue it: {again('tasks', 'resume', found)}"
                )
            return await replan.result(found)

    with own_stdout() as out:
        ended = asyncio.run(read())
        tell_result(ended, out, json=json, events=False)
    raise typer.Exit(of_result(ended))


@tasks_app.command()
def output(
    task_id: TaskName,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step's id.")],
    item: Annotated[
        int | None,
        typer.Option("--item", metavar="N", min=1, help="Of one item of a for_each, counted from 1."),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("--path", metavar="PATH", help="A part of it (JMESPath), like items[0].name."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-o", metavar="FILE", help="Write it there: bytes as bytes, text as text."),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Print the whole output of a step of any plan, also one that is stored as an artifact, or write it to a file."""
    import asyncio

    from replan.cli.commands.saving import save, to_file, to_stdout
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.run.service.results import part_at

    async def read(out: Out) -> tuple[Any, int | None]:
        """The value; or how many bytes of it were written as they are, if it came as a stream."""
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)
            streamed = None if json else await replan.service.streamed_output(found, step, item, path)
            if streamed is None:
                return await replan.output(found, step, item=item), None
            pieces = replan.output_pieces(found, step, item=item, path=path)
            return None, await (to_stdout(pieces, out) if file is None else to_file(pieces, file))

    with own_stdout() as out:
        value, written = asyncio.run(read(out))
        if written is not None:
            if file is not None:
                say(f"{file}: {written:,} bytes")
            return
        if path is not None:
            value = part_at(value, path, option="--path")
        if file is not None:
            say(f"{file}: {save(value, file):,} bytes")
        elif json:
            out.json(value)
        else:
            out.answer(value)


@tasks_app.command()
def cancel(
    task_id: TaskName,
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded with the task.")] = "",
    by: By = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Ask a task to end, whichever process drives it."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.core.state.task import ENDED

    async def ask() -> tuple[str, bool]:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)
            await replan.cancel(found, reason=reason, by=by)
            return found, (await replan.summary(found)).status in ENDED

    with own_stdout():
        found, ended = asyncio.run(ask())
        said = f"{found} has been cancelled" if ended else f"cancellation requested for {found}"
        say(f"{said}; see {again('tasks', 'show', found)}")


@tasks_app.command()
def plan(
    task_id: TaskName,
    plan_format: options.PlanFormat = "json",
    number: Annotated[
        int | None,
        typer.Option("--version", metavar="N", min=1, help="This version of it; default: the latest."),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Print the plan of a task: as JSON that `run --plan` takes, or as a drawing with each step's status."""
    import asyncio

    from replan.cli.commands.plans import tell_plan, version_of
    from replan.cli.terminal.opening import settings_of

    with own_stdout() as out:
        records, *_ = asyncio.run(_past(task_id, settings_of(config), db))
        found, statuses = version_of(records, number)
        tell_plan(out, found, plan_format, statuses)


@tasks_app.command()
def delete(
    task_ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Their ids, or the beginnings of them.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also tasks that have not ended: what they have done is forgotten."),
    ] = False,
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Delete tasks with their logs. A task id that is used again is a new task: its effects are made again."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def remove() -> None:
        async with open_stored(settings_of(config), db) as replan:
            for task_id in [await full_id(replan, name) for name in task_ids]:
                await replan.delete(task_id, unfinished=force)
                say(f"deleted {task_id}")

    with own_stdout():
        asyncio.run(remove())


for _command in (
    approve, reject, answer, signal, pause, resume, hint, retry, judge, fork, export, prune,
):  # fmt: skip
    tasks_app.command()(_command)
tasks_app.command(name="import")(import_)


async def _past(task_id: str, settings: Settings, db: str | None) -> tuple[list[Record], bool, str, Kin, str]:
    """The task's log, whether somebody drives it or will by himself, why no worker takes it, its forks, and which file has it."""
    from replan.cli.terminal.opening import open_stored

    async with open_stored(settings, db) as replan:
        found = await full_id(replan, task_id)
        summary = await replan.summary(found)
        held = summary.held or summary.queue != ""
        records = list(await replan.history(found))
        return records, held, await replan.why_waiting(found), await replan.kin(found), summary.given_away
