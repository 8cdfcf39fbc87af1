"""`replan tools serve` and `replan tools conformance`: tools for other processes, and whether a server is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import own_stdout, say, warn

if TYPE_CHECKING:
    from replan.tools.remote.server import Serving

TokenEnv = Annotated[
    str | None,
    typer.Option("--token-env", metavar="NAME", help="The environment variable that holds the bearer token."),
]


def serve(
    specs: Annotated[
        list[str], typer.Argument(metavar="SPEC…", help="Tools: tools.py, package.module or module:name.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", help="The port for HTTP; 0 takes a free one, -1 leaves HTTP out.")
    ] = 8470,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="N", help="The port for gRPC too; 0 takes a free one.")
    ] = None,
    token_env: TokenEnv = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everybody who reaches the address call the tools.")
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain in PEM form: https and grpcs.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where calls are remembered by their idempotency keys; `memory` forgets them at the end. "
            "Default: a file in the state folder for these tools.",
        ),
    ] = None,
    max_calls: Annotated[int, typer.Option(min=1, metavar="N", help="Calls that may run at once.")] = 100,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECS", help="How long running calls may take to end at SIGTERM.")
    ] = 10.0,
    json: options.Json = False,
) -> None:
    """Offer tools to other processes over HTTP and gRPC, until SIGTERM or Ctrl-C."""
    import asyncio

    from replan.errors import InputError
    from replan.tools.loading import load_tools
    from replan.tools.remote.server import Tls
    from replan.tools.remote.server import serve as run

    if (tls_cert is None) != (tls_key is None):
        raise InputError("--tls-cert and --tls-key belong together: give both, or none")
    sources = [load_tools(spec) for spec in specs]
    with own_stdout() as out:

        def ready(serving: Serving) -> None:
            for problem in serving.problems:
                warn(problem)
            if json:
                out.json({"urls": list(serving.urls), "tools": serving.tools}, compact=True)
            else:
                word = "tool" if serving.tools == 1 else "tools"
                out.line(f"{serving.tools} {word} at {' and '.join(serving.urls)}")

        asyncio.run(
            run(
                sources,
                host=host,
                port=None if port < 0 else port,
                grpc_port=grpc_port,
                token=token_of(token_env),
                insecure=insecure,
                tls=Tls(tls_cert, tls_key) if tls_cert and tls_key else None,
                keys_file=_keys_file(keys, specs),
                grace_secs=grace,
                max_calls=max_calls,
                ready=ready,
            )
        )
        say("stopped")


def conformance(
    url: Annotated[
        str, typer.Argument(help="The server: http://…, https://…, grpc://… or grpcs://host:port.")
    ],
    token_env: TokenEnv = None,
    json: options.Json = False,
) -> None:
    """Check a tool server against the rules of the protocol. It has to offer the tools that the suite calls."""
    import asyncio

    from replan.tools.remote.conformance import check

    with own_stdout() as out:
        found = asyncio.run(check(url, token=token_of(token_env)))
        if json:
            out.json([each._asdict() for each in found])
        else:
            for each in found:
                out.line(
                    f"{each.verdict:<7}  {each.rule}" + (f"\n         {each.reason}" if each.reason else "")
                )
            broken = sum(each.verdict == "broken" for each in found)
            out.line(f"{len(found)} rules, {broken} broken")
    if any(each.verdict == "broken" for each in found):
        raise typer.Exit(1)


def token_of(name: str | None) -> str | None:
    from replan.errors import InputError

    if name is None:
        return None
    if not (token := os.environ.get(name, "")):
        raise InputError(f"the environment variable {name}, which --token-env names, is not set or empty")
    return token


def _keys_file(given: str | None, specs: list[str]) -> Path | None:
    import hashlib

    if given == "memory":
        return None
    if given is not None:
        return Path(given).expanduser()
    from platformdirs import user_state_path

    # One file for the same tools named in the same folder: it has to be found again after a restart.
    named = "\0".join([str(Path.cwd()), *specs])
    return user_state_path("replan") / f"tool-keys-{hashlib.sha256(named.encode()).hexdigest()[:12]}.db"
