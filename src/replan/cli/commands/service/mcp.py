"""`replan mcp`: tasks as tools of an MCP client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.terminal import options

if TYPE_CHECKING:
    from replan.app import Replan


def mcp(
    people: Annotated[
        bool,
        typer.Option(
            "--approve-tool/--no-approve-tool",
            help="Offer the model tools that hand on a person's yes or answer. Without them a person is asked by the client's own "
            "form, where it has one, or answers with `replan tasks approve|answer`.",
        ),
    ] = True,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="What the client may do: read, run, approve, admin; default: all.",
        ),
    ] = None,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    config: options.Config = None,
    db: options.Db = None,
    approve: options.Approve = None,
    evaluation: options.Evaluation = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Serve tasks to an MCP client that starts this command, over stdin and stdout.

    They run here and stop when the client leaves; what has not ended can be resumed.
    """
    from replan.cli.terminal import log_lines, loop, opening
    from replan.cli.terminal.inputs import secret_text

    need_packages()
    settings = opening.settings_of(config)
    log_lines.begin(settings, log_level, log_format)
    policy: dict[str, Any] = {} if evaluation is None else {"evaluation": evaluation}
    replan = opening.open_replan(
        settings,
        tools=tools,
        model=model,
        endpoint=endpoint,
        api_key=None if api_key is None else secret_text(api_key),
        db=db,
        approval=approve or settings.approval.mode,
        **policy,
    )
    loop.run(_serve(replan, people, scopes))


def need_packages() -> None:
    """`InputError` where the extra is not installed."""
    from importlib.util import find_spec

    from replan.errors import InputError

    if missing := [name for name in ("mcp", "starlette") if find_spec(name) is None]:
        raise InputError(
            f"serving MCP needs more packages ({', '.join(missing)} is not here): pip install 'replan[serve]'"
        )


async def _serve(replan: Replan, people: bool, scopes: list[str] | None) -> None:
    import asyncio
    import contextlib
    import os
    import signal
    import sys

    from replan.config.whoever import whoever
    from replan.run.access.callers import SCOPES, checked_scopes
    from replan.server.mcp.stdio import serve_stdio

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    may = SCOPES if scopes is None else checked_scopes(scopes)
    await serve_stdio(replan, who=whoever(None), scopes=may, for_people=people, stop=stop)
    if stop.is_set():  # a thread still waits for the client's next line, and would keep the process
        sys.stderr.flush()
        os._exit(0)
