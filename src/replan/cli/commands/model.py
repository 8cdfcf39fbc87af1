"""`replan model pull|list|serve|conformance`: the weights of the built-in local model, and models for other processes."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.commands.offering.models import conformance, serve
from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import own_stdout, say

if TYPE_CHECKING:
    from pathlib import Path

    from replan.llm.local.weights import OnProgress

model_app = typer.Typer(
    name="model",
    help="The built-in local model, and models as a service.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)

model_app.command()(serve)
model_app.command()(conformance)


@model_app.command()
def pull(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A name of `replan model list`.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Get the weights, check them by their hash, and keep them in the user's cache."""
    from replan.llm.local.weights import DEFAULT

    with own_stdout() as out:
        file = fetch(name or DEFAULT, quiet=quiet)
        if json:
            out.json({"name": name or DEFAULT, "path": str(file)})
        else:
            out.line(str(file))


@model_app.command(name="list")
def list_models(json: options.Json = False) -> None:
    """List the models that can be pulled, and which of them are here."""
    from replan.cli.terminal.words import size
    from replan.llm.local.weights import DEFAULT, KNOWN, find

    with own_stdout() as out:
        rows = [
            {
                "name": weights.name,
                "default": weights.name == DEFAULT,
                "size": weights.size,
                "license": weights.license,
                "about": weights.about,
                "path": str(found) if (found := find(weights.name)) else None,
            }
            for weights in KNOWN.values()
        ]
        if json:
            out.json(rows)
            return
        for row, weights in zip(rows, KNOWN.values(), strict=True):
            where = row["path"] or f"not here: replan model pull {weights.name}"
            out.line(f"{weights.name}  {size(weights.size)}  {weights.license}  {weights.about}\n  {where}")


def fetch(name: str, *, quiet: bool = False) -> Path:
    """Pull weights, with the progress on stderr."""
    from replan.llm.local.pull import pull as pull_weights

    if quiet:
        return pull_weights(name)
    if not sys.stderr.isatty():
        return pull_weights(name, _tenths(name))
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        row = progress.add_task(name, total=None)

        def tell(phase: str, done: int, total: int) -> None:
            progress.update(
                row, description=f"{name}: {_PHASES.get(phase, phase)}", completed=done, total=total
            )

        return pull_weights(name, tell)


_PHASES = {"download": "downloading", "check": "checking", "wait": "waiting for another pull"}


def _tenths(name: str) -> OnProgress:
    """A line at every tenth of each phase."""
    told: dict[str, int] = {}

    def tell(phase: str, done: int, total: int) -> None:
        tenth = done * 10 // max(total, 1)
        if tenth > told.get(phase, -1):
            told[phase] = tenth
            say(f"{name}: {_PHASES.get(phase, phase)}, {tenth * 10} %")

    return tell


def have_weights(name: str, *, planned: bool = False) -> None:
    """See that the built-in model can be used: its runtime and its weights; a person at a terminal is asked.

    `planned`: the plan is given, so that a model is wanted for the judgement alone.

    `InputError` (exit code 2) with the command to run otherwise.
    """
    from replan.cli.terminal.opening import interactive
    from replan.cli.terminal.words import size
    from replan.errors import InputError
    from replan.llm.local.weights import DEFAULT, KNOWN, find

    other = "or name another model with --model or --endpoint (or [llm] in config.toml)"
    if planned:
        other += "; or let the steps judge, which needs no model: --evaluation steps"
    if importlib.util.find_spec("xllamacpp") is None:
        raise InputError(
            "no model is configured, and the built-in one needs the extra [local]: "
            f"pip install 'replan[local]'; {other}"
        )
    if find(name) is not None:
        return
    weights = KNOWN[name]
    command = "replan model pull" + ("" if name == DEFAULT else f" {name}")
    if not interactive():
        raise InputError(
            f"no model is configured, and the weights of the built-in one ({size(weights.size)}) are not here: "
            f"run `{command}`; {other}"
        )
    say(
        f"No model is configured. The built-in one ({name}, {weights.license}) needs {size(weights.size)} of weights."
    )
    if not typer.confirm("Get them now?", default=True, err=True):
        raise InputError(f"without a model nothing can be planned: run `{command}` later, {other}")
    fetch(name)
