"""`replan ui`: the page over the tasks of this machine, with no service at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import Out, own_stdout, say

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.config import Settings

PORT = 7979
"""Always the same where it is free: what a browser keeps of a page (its language, its colours) it keeps by address."""
HOST = "127.0.0.1"


def ui(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help=f"Where to listen on this machine; 0: any free port; default: {PORT}, or any where that is taken.",
        ),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open it in the browser, where there is one.")
    ] = True,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    config: options.Config = None,
    db: options.Db = None,
    log_level: options.LogLevel = None,
    json: options.Json = False,
) -> None:
    """Show the tasks of this machine's database as a page in the browser, until Ctrl-C.

    It listens on this machine only and asks nobody who they are. Tasks that others drive it shows; those that are handed in or answered
    on the page it drives itself, with these tools and this model.
    """
    import asyncio

    from replan.cli.commands.service.serve import need_packages
    from replan.cli.terminal import log_lines, opening
    from replan.cli.terminal.inputs import secret_text

    need_packages()
    settings = for_one(opening.driven_here(opening.settings_of(config)))
    log_lines.begin(settings, log_level or "warning")
    replan = opening.open_replan(
        settings,
        tools=tools,
        model=model,
        endpoint=endpoint,
        api_key=None if api_key is None else secret_text(api_key),
        db=db,
        approval=settings.approval.mode,
    )
    with own_stdout() as out:
        asyncio.run(_look(replan, out, port, opens=open_ and not json, json=json))


def for_one(settings: Settings) -> Settings:
    """The settings of a page for whoever sits at this machine, whatever they say of a service."""
    alone = {
        "host": HOST,
        "auth": "off",
        "allowed_hosts": (),
        "cors_origins": (),
        "a2a": False,
        "ag_ui": False,
    }
    return settings.model_copy(update={"server": settings.server.model_copy(update=alone)})


async def _look(replan: Replan, out: Out, port: int | None, *, opens: bool, json: bool) -> None:
    import asyncio
    import os
    import signal
    import webbrowser

    from replan.cli.terminal.exits import INTERRUPTED
    from replan.cli.terminal.lasting import last
    from replan.cli.terminal.opening import tell_tool_problems
    from replan.server.run import Up, serve

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # told so twice
            os._exit(INTERRUPTED)
        stop.set()

    def ready(up: Up) -> None:
        url = up.urls[0] + "/"
        if json:
            out.json({"pid": os.getpid(), "url": url}, compact=True)
            return
        out.line(url)
        say("Ctrl-C ends it; tasks that it drives go on with: replan tasks resume ID")
        if opens:
            loop.run_in_executor(None, webbrowser.open, url)

    async def work() -> None:
        tell_tool_problems(replan)
        await serve(replan, port=_free(port), stop=stop, ready=ready, grace_secs=0, page_only=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await last(replan, stop, work)


def _free(port: int | None) -> int:
    """The port that was asked for; without one the usual, or any where somebody has that."""
    if port is not None:
        return port
    from replan.errors import InputError
    from replan.server.http.serving import listener

    try:
        listener(HOST, PORT).close()
    except InputError:
        return 0
    return PORT
