"""`replan model serve` and `replan model conformance`: models for other processes, and whether a service is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replan.cli.commands.offering.tools import TokenEnv, token_of
from replan.cli.terminal import options
from replan.cli.terminal.terminal import own_stdout, say


def serve(
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    config: options.Config = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port; 0 takes a free one.")] = 8471,
    token_env: TokenEnv = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everybody who reaches the address ask the models.")
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain in PEM form: grpcs.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    max_calls: Annotated[int, typer.Option(min=1, metavar="N", help="Calls that may run at once.")] = 100,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECS", help="How long running calls may take to end at SIGTERM.")
    ] = 10.0,
    json: options.Json = False,
) -> None:
    """Offer the configured models to other processes over gRPC, until SIGTERM or Ctrl-C."""
    import asyncio
    import os
    import signal

    from replan.config import load_settings
    from replan.core.hosts import is_loopback
    from replan.errors import InputError, ModelUnavailable
    from replan.files import read_bounded
    from replan.wiring import ROLES, Models

    if (tls_cert is None) != (tls_key is None):
        raise InputError("--tls-cert and --tls-key belong together: give both, or none")
    token = token_of(token_env)
    if token is None and not insecure and not is_loopback(host):
        raise InputError(
            f"others reach {host}: give --token-env, or --insecure if everybody may ask these models"
        )
    try:
        from replan.llm.grpc import serving
    except ImportError as error:
        raise ModelUnavailable(
            f"serving models needs an extra ({error.name} is missing): pip install 'replan[remote]'",
            setup=True,
        ) from error
    tls = (read_bounded(tls_cert), read_bounded(tls_key)) if tls_cert and tls_key else None
    settings = load_settings(config, env=os.environ, cwd=Path.cwd()).settings

    with own_stdout() as out:

        async def run() -> None:
            models = Models(settings, model=model, endpoint=endpoint)
            try:
                for role in ROLES:  # what is missing is told now
                    models[role]
                called = models.named()
                names = serving.names_of(models, called)

                def ready(url: str) -> None:
                    if json:
                        out.json({"url": url, "models": names}, compact=True)
                    else:
                        out.line(f"{', '.join(names)} at {url}")

                until = asyncio.Event()
                for each in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(each, until.set)
                server = serving.make_server(
                    models, token, models.secrets.hide, called=called, max_calls=max_calls
                )
                await serving.serve(
                    server, host=host, port=port, tls=tls, ready=ready, until=until, grace_secs=grace
                )
            finally:
                await models.aclose()

        asyncio.run(run())
        say("stopped")


def conformance(
    url: Annotated[str, typer.Argument(help="The service: grpc://host:port, or grpcs:// with TLS.")],
    token_env: TokenEnv = None,
    model: Annotated[str, typer.Option(help="The model to ask; default: the service's own choice.")] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Whose certificates count, in PEM form; default: [llm] ca_file, else the system's.",
        ),
    ] = None,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Check a model service against the rules of the protocol. Two answers are asked of its model."""
    import asyncio

    from replan.cli.terminal.opening import settings_of
    from replan.llm.address import over_grpc
    from replan.llm.grpc.conformance import check

    address = over_grpc(url)
    trusted = ca_file
    if trusted is None and (configured := settings_of(config).llm.ca_file):
        trusted = Path(configured).expanduser()
    with own_stdout() as out:
        found = asyncio.run(check(address, token_of(token_env), model, trusted))
        broken = sum(each.verdict == "broken" for each in found)
        if json:
            out.json([each._asdict() for each in found])
        else:
            for each in found:
                reason = f"\n         {each.reason}" if each.reason else ""
                out.line(f"{each.verdict:<7}  {each.rule}{reason}")
            out.line(f"{len(found)} rules, {broken} broken")
    if broken:
        raise typer.Exit(1)
