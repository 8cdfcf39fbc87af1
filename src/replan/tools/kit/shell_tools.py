"""A tool that runs programs of an allow list, without a shell in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import Field

from replan.errors import InputError, ToolCallError
from replan.tools.bounds import MOST_FILE_BYTES
from replan.tools.functions.context import time_left
from replan.tools.functions.decorator import tool
from replan.tools.functions.files import File
from replan.tools.kit.source import KitSource, kept_of_more_than
from replan.tools.processes import FLOOD_BYTES, plain_environment, run_program

_ANSWERS = {
    "grep": (0, 1),
    "egrep": (0, 1),
    "fgrep": (0, 1),
    "rg": (0, 1),
    "diff": (0, 1),
    "cmp": (0, 1),
    "pgrep": (0, 1),
    "test": (0, 1),
}
"""Exit codes that are an answer ("nothing found", "they differ") and no failure; of all other programs it is 0."""


class Ran(TypedDict):
    """What a program wrote; the middle is left out where `truncated`, and `stdout_file` is all of stdout."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    stdout_file: NotRequired[File]


Arguments = Annotated[list[str], Field(max_length=1000)]


def shell(
    allow: Sequence[str] = (),
    *,
    reads: Sequence[str] = (),
    cwd: str | os.PathLike[str] = ".",
    timeout_secs: float = 60.0,
    max_output_bytes: int = 100_000,
    most_file_bytes: int = MOST_FILE_BYTES,
    env: Sequence[str] = (),
    name: str = "shell",
) -> KitSource:
    """Programs as two tools: `run_command` for those of `allow`, `run_reading_command` for those of `reads`.

    Each is a name that is looked up on the PATH, now and once, or a path. Arguments go to the program as they are: no
    shell reads them, so `;`, `|`, `$(…)` and `*` mean nothing. `reads` says that a program changes nothing, whatever
    its arguments; such calls are repeated freely. Those of `allow` count as effects that must not be repeated.
    Of more than `max_output_bytes` the ends are given; in a task, all of stdout besides, as a file (`replan.File`) of at most
    `most_file_bytes`.
    `cwd`: where they run. `env`: variables that they get besides PATH, HOME, locale and time zone.

    This is no sandbox: an allowed program can do whatever it can (`find -exec`, `git` with hooks, `tar` with
    `--to-command`, any interpreter), with the rights of this process. Raises `InputError` for a program that is
    not there.
    """
    folder = Path(cwd).expanduser().resolve()
    if not folder.is_dir():
        raise InputError(f"shell: cwd {os.fspath(cwd)!r} is not a folder")
    programs, readers = _looked_up(allow), _looked_up(reads)
    if not programs and not readers:
        raise InputError(
            "shell: no program is allowed; name some: kit:shell=git+make, or shell(allow=['git'])"
        )

    async def run(path: str, program: str, arguments: list[str], stdin: str, clean: bool) -> Ran:
        if "\0" in "".join(arguments):
            raise ToolCallError(
                "arguments: a NUL character cannot be in an argument", kind="parameter", happened="no"
            )
        tee = kept_of_more_than(max_output_bytes)
        ended = await run_program(
            [path, *arguments],
            what=f"the program {program!r}",
            cwd=folder,
            env=plain_environment(env),
            stdin=stdin.encode("utf-8", "replace"),
            timeout_secs=time_left(timeout_secs),
            max_output_bytes=max_output_bytes,
            tee=tee,
            flood_bytes=FLOOD_BYTES if tee is None else most_file_bytes,
        )
        if ended.exit_code not in _ANSWERS.get(program, (0,)):
            raise ToolCallError(
                _failure(program, ended.exit_code, ended.stderr.text, ended.stdout.text),
                happened="no" if clean else "unknown",
            )
        cut = ended.stdout.cut or ended.stderr.cut
        ran: Ran = {
            "exit_code": ended.exit_code,
            "stdout": ended.stdout.text,
            "stderr": ended.stderr.text,
            "truncated": cut,
        }
        if ended.taken is not None:
            ran["stdout_file"] = ended.taken
        return ran

    async def run_command(program: str, arguments: Arguments | None = None, stdin: str = "") -> Ran:
        """Run a program and give what it wrote. There is no shell: no pipes, no wildcards, no variables.

        Args:
            program: which program
            arguments: its arguments, one item each, such as ["log", "--oneline"]
            stdin: text that it reads from its standard input
        """
        return await run(programs[program], program, arguments or [], stdin, False)

    async def run_reading_command(program: str, arguments: Arguments | None = None, stdin: str = "") -> Ran:
        """Run a program that only reads, and give what it wrote. There is no shell: no pipes, no wildcards.

        Args:
            program: which program
            arguments: its arguments, one item each, such as ["-l", "reports"]
            stdin: text that it reads from its standard input
        """
        return await run(readers[program], program, arguments or [], stdin, True)

    made: list[Callable[..., Any]] = []
    whole = timeout_secs + 5
    if programs:
        run_command.__annotations__["program"] = Literal[tuple(programs)]
        made.append(tool(effect="once", timeout=whole, errors_are_clean=False)(run_command))
    if readers:
        run_reading_command.__annotations__["program"] = Literal[tuple(readers)]
        made.append(tool(effect="reads", volatile=True, timeout=whole)(run_reading_command))
    return KitSource(made, name=name)


def _looked_up(names: Sequence[str]) -> dict[str, str]:
    if isinstance(names, str):
        names = [names]
    found: dict[str, str] = {}
    for name in names:
        path = shutil.which(os.path.expanduser(name)) if name else None
        if path is None:
            raise InputError(f"shell: there is no program {name!r} on the PATH that could be run")
        found[os.path.basename(name)] = os.path.abspath(path)
    return found


def _failure(program: str, code: int, stderr: str, stdout: str) -> str:
    ended = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    said = (stderr.strip() or stdout.strip())[-2000:]
    return f"{program} {ended}: {said}" if said else f"{program} {ended} and wrote nothing"
