"""`replan tasks graph`: a task's plan as a graph, with how each step stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import own_stdout

if TYPE_CHECKING:
    from replan.core.drawing.forms import Format
    from replan.core.events import Record


def graph(
    task_id: TaskName,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="As Graphviz DOT.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="As SVG, in a file of its own.")] = False,
    number: Annotated[
        int | None,
        typer.Option("--version", metavar="N", min=1, help="This version of the plan; default: the latest."),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
) -> None:
    """Draw a task's plan: how each step stands, what waits for what, and the critical path."""
    import asyncio
    import time

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.core.drawing.forms import draw
    from replan.core.drawing.text import text
    from replan.run.service.drawn import graph_of_log

    form = _form(mermaid=mermaid, dot=dot, svg=svg)

    async def read() -> list[Record]:
        async with open_stored(settings_of(config), db) as replan:
            return list(await replan.history(await full_id(replan, task_id)))

    with own_stdout() as out:
        found = graph_of_log(asyncio.run(read()), time.time(), number)
        if form is not None:
            out.line(draw(found, form).rstrip("\n"))
        else:
            out.line(text(found, columns=out.columns, ascii_only=not out.unicode))


def _form(*, mermaid: bool, dot: bool, svg: bool) -> Format | None:
    """The one that is asked for; None: text."""
    given: dict[Format, bool] = {"mermaid": mermaid, "dot": dot, "svg": svg}
    asked = [form for form, wanted in given.items() if wanted]
    if len(asked) > 1:
        raise typer.BadParameter(f"one of --{' and --'.join(asked)}, not both")
    return asked[0] if asked else None
