"""Files of scenes and workflows, checked: what each has, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from replan.cli.terminal.terminal import Out
    from replan.core.kinds.known import Known

Files: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH…", help="Files or folders; default: those of the configuration.", show_default=False
    ),
]


def tell_checked(out: Out, known: Known, what: str, names: Mapping[str, object], *, json: bool) -> None:
    """Print what was found; exit code 1 where something is wrong, or where there is nothing."""
    problems = [*known.problems]
    found = {name: known.sources[f"{what} {name}"] for name in names}
    if not found and not problems:
        problems.append(f"there are no {what}s: name their files, or configure them in [scenes]")
    if json:
        out.json({"ok": not problems, "found": found, "problems": problems})
    else:
        for name, place in found.items():
            out.line(f"ok  {name}  {place}")
        for problem in problems:
            out.line(f"problem  {problem}")
    if problems:
        raise typer.Exit(1)


def tell_problems(known: Known) -> None:
    """What is wrong with files, on stderr."""
    from replan.cli.terminal.terminal import warn

    for problem in known.problems:
        warn(problem)
