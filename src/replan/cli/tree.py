"""The tree of commands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from replan.cli.commands.config import config_app
from replan.cli.commands.init import init
from replan.cli.commands.kinds.scenes import scenes_app
from replan.cli.commands.kinds.workflows import workflows_app
from replan.cli.commands.model import model_app
from replan.cli.commands.outbox import outbox_app
from replan.cli.commands.run import run
from replan.cli.commands.service.keys import keys_app
from replan.cli.commands.service.mcp import mcp
from replan.cli.commands.service.serve import serve
from replan.cli.commands.service.ui import ui
from replan.cli.commands.tasks import tasks_app
from replan.cli.commands.tools import tools_app
from replan.cli.commands.workers import submit, worker
from replan.cli.doctor.command import doctor
from replan.cli.terminal.listing import Listed

app = typer.Typer(
    name="replan",
    help="A task in plain language and your tools in; a planned, executed and checked result out.",
    cls=Listed,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 succeeded, 1 failed, 2 usage or configuration error, 3 cancelled, 4 a budget or the "
    "timeout, 5 waiting for a person.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"replan {version('replan')}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (as REPLAN_DEBUG=1 does).")] = False,
) -> None:
    if debug:
        os.environ["REPLAN_DEBUG"] = "1"


app.command()(run)
app.command()(submit)
app.command()(worker)
app.command()(serve)
app.command()(ui)
app.command()(mcp)
app.add_typer(tasks_app)
app.add_typer(tools_app)
app.add_typer(workflows_app)
app.add_typer(scenes_app)
app.add_typer(model_app)
app.add_typer(config_app)
app.add_typer(outbox_app)
app.add_typer(keys_app)
app.command()(doctor)
app.command()(init)
