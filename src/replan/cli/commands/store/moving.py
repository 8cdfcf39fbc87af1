"""`replan tasks export|import`: tasks on their way to another store."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from replan.cli.commands.store.new_file import (
    Target,
    check_free,
    forget_parts,
    new_file,
    parts,
    place,
    settled,
    taken,
)
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import full_id, one_of
from replan.cli.terminal.terminal import own_stdout, say
from replan.errors import InputError, TaskNotFound

_PIECE = 1 << 20
_NEVER_OVER = "--move writes over none, as it may be the only place where what is in it is"


def export(
    task_ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Their ids, or the beginnings of them.")
    ],
    file: Annotated[
        Path | None, typer.Option("--file", "-o", metavar="FILE", help="Write it there; default: to stdout.")
    ] = None,
    move: Annotated[
        bool,
        typer.Option(
            "--move", help="Give them away, also such as have not ended: they are here no more afterwards."
        ),
    ] = False,
    take_back: Annotated[
        bool,
        typer.Option(
            "--take-back",
            help="Let tasks go on here whose file is lost, and was imported nowhere. Writes no file.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there; never with --move.")
    ] = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Write tasks with their logs and artifacts as one file, which `tasks import` takes into another database."""
    import asyncio

    if take_back:
        if file is not None or move or force:
            raise InputError("--take-back writes no file: leave -o, --move and --force out")
        asyncio.run(_take_back(task_ids, config, db))
        return
    if file is None and (move or sys.stdout.isatty()):
        why = "what is given away has to be safe first" if move else "a terminal cannot show it"
        raise InputError(f"{why}: write it to a file, with -o FILE")
    if move and force:
        raise InputError(
            "--force: a file that is there may be the only place where other tasks are; --move writes over none"
        )
    named = file
    if file is not None:
        file = settled(file, whole=move)
    with own_stdout() as out:
        if file is None:
            asyncio.run(_written(task_ids, config, db, Target(out.raw, lambda: None), move=False))
            return
        try:
            found = _to_file(task_ids, config, db, file, move=move, force=force)
        except KeyboardInterrupt:
            if move and file.exists():
                say(f"stopped: {named} is whole; the same command once more removes from here what is in it")
            elif move:
                say(f"stopped: the tasks are still here, and {named} was not written")
            raise
        what = found[0] if len(found) == 1 else f"{len(found)} tasks"
        say(f"{named}: {what}, {file.stat().st_size:,} bytes{'; gone from here' if move else ''}")


def _to_file(
    task_ids: list[str], config: Path | None, db: str | None, file: Path, *, move: bool, force: bool
) -> list[str]:
    from replan.cli.terminal.interrupts import told_to_stop

    with told_to_stop() as run:
        if move:
            finishing = _finished(task_ids, config, db, file, there=os.path.lexists(file))
            if (found := run(finishing)) is not None:
                return found
        with new_file(file, over=force) as target:
            return run(_written(task_ids, config, db, target, move=move))


async def _written(
    task_ids: list[str], config: Path | None, db: str | None, target: Target, *, move: bool
) -> list[str]:
    from replan.cli.terminal.opening import open_stored, settings_of

    async with open_stored(settings_of(config), db) as replan:
        found = [await full_id(replan, name) for name in task_ids]
        async with replan.export_tasks(found, move=move) as pieces:
            async for piece in pieces:
                target.write(piece)
            target.safe()
        return found


async def _finished(
    task_ids: list[str], config: Path | None, db: str | None, file: Path, *, there: bool
) -> list[str] | None:
    """The tasks of the file, where this very command was stopped after it had written it: they are removed now. None: it is still to
    be written."""
    from replan.cli.terminal.opening import open_stored, settings_of

    async with open_stored(settings_of(config), db) as replan:
        found, marks = [], set()
        for name in task_ids:
            try:
                found.append(await full_id(replan, name))
                marks.add((await replan.summary(found[-1])).given_away)
            except TaskNotFound:
                if not there or (gone := await _in(file, name)) is None:
                    raise
                found.append(gone)
                marks.add("gone")
        if not any(marks):
            check_free(file, why=_NEVER_OVER)
            return None
        if not there and not await _named(file, marks):
            return None
        check_free(file, over=True)
        forget_parts(file)
        try:
            with file.open("rb") as given:
                return await replan.finish_export(found, pieces_of(given))
        except InputError as error:
            raise InputError(
                f"{file} is there already, and is not the file of these tasks: {error}; {_NEVER_OVER}"
            ) from None


async def _in(file: Path, name: str) -> str | None:
    """The task of the file that is meant."""
    from replan.store.transfer.incoming import listed

    ids: list[str] = []
    with contextlib.suppress(InputError, OSError), file.open("rb") as given:
        ids = await listed(pieces_of(given))
    return one_of(name, ids)


async def _named(file: Path, marks: Collection[str]) -> bool:
    """Give the file its name that was written and has none yet; one that lacks nothing but its end gets that first."""
    from replan.store.transfer.incoming import lacking, read_through

    for part in parts(file):
        with contextlib.suppress(InputError, OSError), part.open("r+b") as given:
            found = await lacking(pieces_of(given))
            if found.digest not in marks or not taken(given):
                continue
            given.seek(found.at)
            given.write(found.rest)
            given.truncate()
            os.fsync(given.fileno())
            given.seek(0)
            await read_through(pieces_of(given))
            place(part, file)
            return True
    return False


async def _take_back(task_ids: list[str], config: Path | None, db: str | None) -> None:
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.core.state.task import ENDED

    async with open_stored(settings_of(config), db) as replan:
        found = [await full_id(replan, name) for name in task_ids]
        taken = await replan.take_back(found)
        for task_id in found:
            rest = ""
            if task_id in taken and (await replan.summary(task_id)).status not in ENDED:
                rest = f"; go on with it: {again('tasks', 'resume', task_id)}"
            say(f"{task_id} {'is here again' if task_id in taken else 'was not given away'}{rest}")


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `tasks export` has written; - for stdin.")
    ],
    not_gone_on: Annotated[
        bool,
        typer.Option(
            "--not-gone-on",
            help="Also unfinished tasks that came in or were given away before, and are gone: none has gone on since.",
        ),
    ] = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
    json: options.Json = False,
) -> None:
    """Take in the tasks of an exported file, all of them or none, each with the history that it had."""
    import asyncio

    from replan.cli.terminal.opening import open_replan, settings_of, without_tools
    from replan.store.transfer.incoming import Imported

    async def read(given: BinaryIO) -> tuple[list[Imported], bool]:
        async with open_replan(without_tools(settings_of(config)), db=db) as replan:
            found = await replan.import_tasks(pieces_of(given), not_gone_on=not_gone_on)
            with contextlib.suppress(InputError):  # a store that workers cannot share
                return found, any(worker.alive for worker in await replan.workers())
            return found, False

    with own_stdout() as out:
        try:
            if str(file) == "-":
                found, taken = asyncio.run(read(sys.stdin.buffer))
            else:
                with file.open("rb") as given:
                    found, taken = asyncio.run(read(given))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
        except InputError as error:
            raise InputError(f"{file} was not imported: {error}") from None
        if json:
            out.json([one._asdict() for one in found])
            return
        for one in found:
            if not one.new:
                further = f"and has gone on since ({one.status}): the file has nothing that is not here"
                say(f"{one.task_id} is here already, {further if one.further else 'the very same'}")
                continue
            whoever = "a worker that has all it needs goes on with it, or" if taken else "go on with it:"
            rest = f"; {whoever} {again('tasks', 'resume', one.task_id)}" if one.goes_on else ""
            say(f"imported {one.task_id} ({one.status}){rest}")


async def pieces_of(given: BinaryIO) -> AsyncIterator[bytes]:
    while piece := given.read(_PIECE):
        yield piece
