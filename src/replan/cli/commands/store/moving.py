"""`replan tasks export|import`: tasks on their way to another store."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import full_id
from replan.cli.terminal.terminal import own_stdout, say
from replan.errors import InputError

_PIECE = 1 << 20


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
    config: options.Config = None,
    db: options.Db = None,
) -> None:
    """Write tasks with their logs and artifacts as one file, which `tasks import` takes into another database."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    if file is None and (move or sys.stdout.isatty()):
        why = "what is given away has to be safe first" if move else "a terminal cannot show it"
        raise InputError(f"{why}: write it to a file, with -o FILE")

    async def write(take: Callable[[bytes], object], safe: Callable[[], None]) -> list[str]:
        async with open_stored(settings_of(config), db) as replan:
            found = [await full_id(replan, name) for name in task_ids]
            async with replan.export_tasks(found, move=move) as pieces:
                async for piece in pieces:
                    take(piece)
                safe()
            return found

    with own_stdout() as out:
        if file is None:
            asyncio.run(write(out.raw, lambda: None))
            return
        with _new_file(file, whole=move) as (given, safe):
            found = asyncio.run(write(given.write, safe))
        what = found[0] if len(found) == 1 else f"{len(found)} tasks"
        say(f"{file}: {what}, {file.stat().st_size:,} bytes{'; gone from here' if move else ''}")


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `tasks export` has written; - for stdin.")
    ],
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Take in the tasks of an exported file, all of them or none, each with the history that it had."""
    import asyncio

    from replan.cli.terminal.opening import open_replan, settings_of, without_tools
    from replan.store.transfer.incoming import Imported

    async def read(given: BinaryIO) -> list[Imported]:
        async with open_replan(without_tools(settings_of(config)), db=db) as replan:
            return await replan.import_tasks(_pieces(given))

    with own_stdout() as out:
        try:
            if str(file) == "-":
                found = asyncio.run(read(sys.stdin.buffer))
            else:
                with file.open("rb") as given:
                    found = asyncio.run(read(given))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
        except InputError as error:
            raise InputError(f"{file} was not imported: {error}") from None
        if json:
            out.json([one._asdict() for one in found])
            return
        for one in found:
            if not one.new:
                say(f"{one.task_id} is here already, the very same")
                continue
            rest = f"; go on with it: {again('tasks', 'resume', one.task_id)}" if one.goes_on else ""
            say(f"imported {one.task_id} ({one.status}){rest}")


@contextlib.contextmanager
def _new_file(file: Path, *, whole: bool) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """A file to write to, and what has it safely on the disk under its name: all of it, or nothing. A link stays a link.

    A device or a pipe is written to as it is, but for what has to be there `whole` afterwards.
    """
    if file.exists() and not file.is_dir() and not file.is_file():
        if whole:
            raise InputError(
                f"{file} keeps nothing: what is given away has to be safe first, in an ordinary file"
            )
        try:
            with file.open("wb") as device:
                yield device, device.flush
        except OSError as error:
            raise InputError(f"{file} cannot be written: {error.strerror or error}") from None
        return
    file = file.resolve()
    part = file.with_name(f".replan-{secrets.token_hex(8)}.part")
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:

            def safe() -> None:
                out.flush()
                os.fsync(out.fileno())
                part.replace(file)
                with contextlib.suppress(OSError):  # not every system has folders that can be synced
                    folder = os.open(file.parent, os.O_RDONLY)
                    try:
                        os.fsync(folder)
                    finally:
                        os.close(folder)

            try:
                yield out, safe
            except BaseException:
                if not part.exists():  # it is whole, but no more what it says
                    file.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


async def _pieces(given: BinaryIO) -> AsyncIterator[bytes]:
    while piece := given.read(_PIECE):
        yield piece
