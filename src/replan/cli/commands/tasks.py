"""`replan tasks list|graph|show|watch|result|output|plan|cancel|delete` and others: tasks of the store, from any process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from replan.cli.commands.answers import answer, approve, reject, signal
from replan.cli.commands.graph import graph
from replan.cli.commands.people.forks import fork
from replan.cli.commands.people.interventions import cancel, hint, judge, pause, retry
from replan.cli.commands.people.reviews import review
from replan.cli.commands.resume import resume
from replan.cli.commands.store.choosing import list_tasks
from replan.cli.commands.store.moving import export, import_
from replan.cli.commands.store.pruning import prune
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.remote.meant import by_others, is_service, speaks_to_service
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import Out, own_stdout, say

if TYPE_CHECKING:
    from replan.app import Replan
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


tasks_app.command(name="list")(list_tasks)
tasks_app.command()(graph)


@tasks_app.command()
def show(
    task_id: TaskName,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
    events: options.Events = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write it there as a page that stands alone."),
    ] = None,
) -> None:
    """Show what a task has done: its plan, every step, every call with its error."""
    import asyncio

    from replan.cli.commands.history import as_json, tell
    from replan.cli.commands.saving import save
    from replan.cli.commands.store.pages import page_of_task
    from replan.cli.terminal.opening import settings_of
    from replan.errors import InputError, TaskGivenAway

    if html is not None and (json or events):
        raise InputError("--html and --json or --events exclude each other: give one of them")
    with own_stdout() as out:
        if html is not None:
            page = asyncio.run(page_of_task(task_id, settings_of(config), db))
            say(f"{html}: {save(page, html):,} bytes")
            return
        past = asyncio.run(_past(task_id, settings_of(config), db))
        records, why, kin, given_away = past.records, past.why, past.kin, past.given_away
        if events:
            for record in records:
                out.json(record.wire(), compact=True)
        elif json:
            more = {"waits_for_worker": why, "queue": past.queue, "given_away": given_away}
            out.json({**as_json(records, kin), **{name: said for name, said in more.items() if said}})
        else:
            away = str(TaskGivenAway(records[0].task_id, given_away)) if given_away else ""
            by_workers = (past.queue != "" or speaks_to_service()) and not away
            tell(out, records, held=past.held or bool(away), by_workers=by_workers, why=away or why, kin=kin)


@tasks_app.command()
def watch(
    task_id: TaskName,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", min=0, help="Events after this one only.")
    ] = 0,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
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

    async def until_the_end(out: Out) -> tuple[TaskResult, bool]:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)  # no such task: told before anything is drawn
            summary = await replan.summary(found)
            if not summary.queue and not summary.held and summary.status not in (*ENDED, "queued", "waiting"):
                warn(f"no process drives this task now; continue it with: {again('tasks', 'resume', found)}")
            await follow(replan, found, show_for(quiet=quiet), out if events else None, after=after)
            return await replan.result(found), await by_others(replan, found)

    with own_stdout() as out:
        result, by_workers = asyncio.run(until_the_end(out))
        tell_result(result, out, json=json, events=events, by_workers=by_workers)
    raise typer.Exit(of_result(result))


@tasks_app.command()
def result(
    task_id: TaskName,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """Print the answer of a task that has ended, or what it waits for; the exit code is that of its end."""
    import asyncio

    from replan.cli.commands.report import tell_result
    from replan.cli.live.picture import PictureState
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.errors import InputError

    async def read() -> tuple[TaskResult, bool]:
        async with open_stored(settings_of(config), db) as replan:
            found = await full_id(replan, task_id)
            view = PictureState.of(await replan.history(found))
            if view.ended is None and view.status != "waiting":
                raise InputError(
                    f"task {found!r} has not ended ({view.status}). Wait for it: {again('tasks', 'watch', found)}\n"
                    f"or continue it: {again('tasks', 'resume', found)}"
                )
            return await replan.result(found), await by_others(replan, found)

    with own_stdout() as out:
        ended, by_workers = asyncio.run(read())
        tell_result(ended, out, json=json, events=False, by_workers=by_workers)
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
    server: options.Server = None,
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
            if json or not await _is_file(replan, found, step, item, path):
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
def plan(
    task_id: TaskName,
    plan_format: options.PlanFormat = "json",
    number: Annotated[
        int | None,
        typer.Option("--version", metavar="N", min=1, help="This version of it; default: the latest."),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Print the plan of a task: as JSON that `run --plan` takes, or as a drawing with each step's status."""
    import asyncio

    from replan.cli.commands.plans import tell_plan, version_of
    from replan.cli.terminal.opening import settings_of

    with own_stdout() as out:
        past = asyncio.run(_past(task_id, settings_of(config), db))
        found, statuses = version_of(past.records, number)
        tell_plan(out, found, plan_format, statuses)


@tasks_app.command()
def delete(
    task_ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Their ids, or the beginnings of them.")
    ],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also tasks that have not ended, and forks that others go by: what they have done is forgotten.",
        ),
    ] = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
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
    cancel, approve, reject, review, answer, signal, pause, resume, hint, retry, judge, fork, export, prune,
):  # fmt: skip
    tasks_app.command()(_command)
tasks_app.command(name="import")(import_)


class _Past(NamedTuple):
    """A task's log, and how it stands."""

    records: list[Record]
    held: bool
    queue: str
    why: str
    """Why no worker takes it."""
    kin: Kin
    given_away: str


async def _is_file(replan: Replan, task_id: str, step: str, item: int | None, path: str | None) -> bool:
    if is_service(replan):
        return path is None and await replan.is_file(task_id, step, item)  # type: ignore[attr-defined]
    return await replan.service.streamed_output(task_id, step, item, path) is not None


async def _past(task_id: str, settings: Settings, db: str | None) -> _Past:
    from replan.cli.terminal.opening import open_stored

    async with open_stored(settings, db) as replan:
        found = await full_id(replan, task_id)
        summary = await replan.summary(found)
        records, why = list(await replan.history(found)), await replan.why_waiting(found)
        kin = replan.kin_of(records) if is_service(replan) else await replan.kin(found)  # type: ignore[attr-defined]
        return _Past(records, summary.held, summary.queue, why, kin, summary.given_away)
