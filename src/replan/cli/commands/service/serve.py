"""`replan serve`: the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import Out, own_stdout

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from replan.app import Replan


def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen; default: [server] host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Of HTTP; 0: any free one; default: [server] port.",
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            "--grpc-port",
            metavar="N",
            min=0,
            max=65535,
            help="Of gRPC; 0: any free one; default: [server] grpc_port, or any where --port is 0.",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECS",
            min=0,
            help="How long calls that run may take to end at SIGTERM; default: [server] drain_secs.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            metavar="N",
            min=0,
            max=256,
            help="Start so many workers beside the service, which drive the tasks; needs a PostgreSQL database.",
        ),
    ] = 0,
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
    json: options.Json = False,
) -> None:
    """Serve tasks over HTTP, gRPC and MCP, until SIGTERM or Ctrl-C. Unfinished tasks of the database are taken up at the start."""
    from replan.cli.terminal import log_lines, loop, opening
    from replan.cli.terminal.inputs import secret_text
    from replan.errors import InputError

    need_packages()
    settings = opening.settings_of(config)
    log_lines.begin(settings, log_level, log_format)
    if workers:
        if api_key is not None:
            raise InputError(
                "workers ask models with their own key: give it as APP_LLM_API_KEY, or in the configuration"
            )
        settings = settings.model_copy(
            update={"engine": settings.engine.model_copy(update={"kind": "procrastinate"})}
        )
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
    with own_stdout() as out:
        beside = _for_workers(tools, model, endpoint, config, db, log_level, log_format)
        loop.run(
            _serve(
                replan,
                out,
                host,
                port,
                grpc_port,
                settings.server.drain_secs if grace is None else grace,
                workers,
                beside,
                json=json,
            ),
            _new_loop(),
        )
        log_lines.log.info("stopped")


def _for_workers(
    tools: list[str] | None,
    model: str | None,
    endpoint: str | None,
    config: Path | None,
    db: str | None,
    log_level: str | None,
    log_format: str | None,
) -> list[str]:
    """What workers beside the service are started with. A key that is given by hand is none of it: others could read it there."""
    given = {
        "--model": model, "--endpoint": endpoint, "--config": config, "--db": db,
        "--log-level": log_level, "--log-format": log_format,
    }  # fmt: skip
    made = [part for spec in tools or () for part in ("--tools", spec)]
    return made + [part for name, value in given.items() if value is not None for part in (name, str(value))]


def _new_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The service's own kind of loop, where what it is made of is there."""
    try:
        from replan.server.loop import ServiceLoop
    except ImportError:
        return None
    return ServiceLoop


def need_packages() -> None:
    """`InputError` where the extra is not installed."""
    from importlib.util import find_spec

    from replan.errors import InputError

    if missing := [
        name
        for name in ("fastapi", "uvicorn", "grpc_health", "grpc_reflection", "mcp")
        if find_spec(name) is None
    ]:
        raise InputError(
            f"the service needs more packages ({', '.join(missing)} is not here): pip install 'replan[serve]'"
        )


async def _serve(
    replan: Replan,
    out: Out,
    host: str | None,
    port: int | None,
    grpc_port: int | None,
    grace: float,
    workers: int,
    beside: list[str],
    *,
    json: bool,
) -> None:
    import asyncio
    import os
    import signal

    from replan.cli.commands.service.workers_beside import keep_workers
    from replan.cli.terminal import log_lines
    from replan.cli.terminal.exits import INTERRUPTED
    from replan.cli.terminal.lasting import last
    from replan.cli.terminal.opening import tell_tool_problems
    from replan.cli.terminal.words import counted
    from replan.core.words import in_digits
    from replan.server.process import prepare
    from replan.server.run import Up
    from replan.server.run import serve as run

    stop = asyncio.Event()

    def end() -> None:
        if stop.is_set():  # told so twice
            os._exit(INTERRUPTED)
        log_lines.log.info(
            "taking no more tasks; calls that run may end for %s s (told so again: at once), and tasks go on at the next start",
            in_digits(grace),
        )
        stop.set()

    async def work() -> None:
        tell_tool_problems(replan)
        count = len(await replan.tools())
        prepare()

        def ready(up: Up) -> None:
            if json:
                out.json({"pid": os.getpid(), "tools": count, "urls": list(up.urls)}, compact=True)
            else:
                out.line(f"serving {counted(count, 'tool')} at {' and '.join(up.urls)}")

        keeping = None
        if workers:
            keeping = asyncio.create_task(
                keep_workers(workers, beside, stop=stop, grace_secs=grace, say=log_lines.log.warning)
            )
        try:
            await run(
                replan, host=host, port=port, grpc_port=grpc_port, stop=stop, ready=ready, grace_secs=grace
            )
        finally:
            stop.set()
            if keeping is not None:
                await keeping

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await last(replan, stop, work, say=log_lines.log.warning)
