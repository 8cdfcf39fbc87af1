"""`replan outbox write|audit|kafka|webhooks|list|forget`: the log, delivered to files, to Kafka and to webhooks, and whoever else it is delivered to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import own_stdout, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from replan.app import Replan
    from replan.ports import Consumer, ConsumerState

outbox_app = typer.Typer(
    name="outbox",
    help="Deliver the log, event by event, to files or to whoever else wants it.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)


Name = Annotated[str, typer.Option("--name", metavar="NAME", help="What the cursor is kept under.")]
FromNow = Annotated[
    bool, typer.Option("--from-now", help="A new cursor begins with what is stored from now on.")
]
MaxMb = Annotated[
    float,
    typer.Option("--max-mb", metavar="N", min=0.001, help="A file that would get larger is moved to FILE.1."),
]
Keep = Annotated[
    int | None,
    typer.Option("--keep", metavar="N", min=0, help="So many older files are kept; default: all."),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Where the lines go; its folder is made.")]


@outbox_app.command()
def write(
    file: File,
    name: Name = "json-lines",
    from_now: FromNow = False,
    max_mb: MaxMb = 100.0,
    keep: Keep = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Write every stored event as a line of JSON, what is there and what comes, until SIGTERM or Ctrl-C.

    Each is written at least once, those of a task in order; (task_id, seq) tells one that came twice.
    """
    from replan.cli.terminal import loop
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.projections.json_lines import JsonLines

    consumer = JsonLines(file, name=name, max_bytes=int(max_mb * 1_000_000), keep=keep)
    with own_stdout():
        loop.run(_write(open_stored(settings_of(config), db), lambda _: [consumer], from_now=from_now))


@outbox_app.command()
def audit(
    file: File,
    name: Name = "audit.file",
    from_now: FromNow = False,
    max_mb: MaxMb = 100.0,
    keep: Keep = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Write audit records as lines of JSON, what is there and what comes, until SIGTERM or Ctrl-C.

    Each is written at least once, those of a task in order; (task_id, fields.seq) tells one that came twice.
    """
    from replan.cli.terminal import loop
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.projections.audit_file import AuditFile

    with own_stdout():
        replan = open_stored(settings_of(config), db)
        most = int(max_mb * 1_000_000)
        consumer = AuditFile(file, name=name, max_bytes=most, keep=keep, masked=replan.secrets.masked)
        loop.run(_write(replan, lambda _: [consumer], from_now=from_now))


@outbox_app.command()
def kafka(
    from_now: FromNow = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Deliver audit records to the topic of `[kafka_service]`, what is there and what comes, until SIGTERM or Ctrl-C.

    `replan serve` and `replan worker` do so themselves where `[kafka_service]` is enabled. Each is delivered at least once, those of a task in order;
    (task_id, fields.seq) tells one that came twice.
    """
    from replan.cli.terminal import loop
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.wiring import kafka_audit

    with own_stdout():
        settings = settings_of(config)
        replan = open_stored(settings, db)
        audit = kafka_audit(settings, replan.secrets)
        loop.run(_write(replan, lambda _: [audit], from_now=from_now))


@outbox_app.command()
def webhooks(
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Tell the endpoints of `[webhooks]` of tasks that wait for somebody or have ended, until SIGTERM or Ctrl-C.

    `replan serve` and `replan worker` do so themselves. Each is told at least once, what there is of a task in order; `webhook-id` tells what came twice. A
    new endpoint is told what happens from now on.
    """
    from replan.cli.terminal import loop
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.errors import InputError
    from replan.wiring import webhooks_of

    with own_stdout():
        settings = settings_of(config)
        if not settings.webhooks.endpoints:
            raise InputError("the configuration has no [webhooks.endpoints.NAME]: nobody is to be told")
        replan = open_stored(settings, db)

        def all_of(replan: Replan) -> list[Consumer]:
            return webhooks_of(settings, replan.secrets, replan.service.parts.store)

        loop.run(_write(replan, all_of, from_now=True))


async def _write(replan: Replan, consumers: Callable[[Replan], list[Consumer]], *, from_now: bool) -> None:
    import asyncio
    import signal

    from replan.cli.terminal.lasting import last

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def deliver() -> None:
        wanted = consumers(replan)
        names = ", ".join(consumer.name for consumer in wanted)
        which, how = ("are", "they stand") if len(wanted) > 1 else ("is", "it stands")
        say(
            f"{names} {which} delivered from now on, until SIGTERM or Ctrl-C; `replan outbox list` says how {how}"
        )
        delivering = {asyncio.create_task(replan.deliver(one, from_now=from_now)) for one in wanted}
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({*delivering, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for ended in delivering:
            if ended.done():
                ended.result()

    await last(replan, stop, deliver)
    say("stopped")


@outbox_app.command(name="list")
def list_consumers(config: options.Config = None, db: options.Db = None, json: options.Json = False) -> None:
    """List who is delivered the log, and how far each is behind."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def read() -> list[ConsumerState]:
        async with open_stored(settings_of(config), db) as replan:
            return await replan.consumers()

    with own_stdout() as out:
        found = asyncio.run(read())
        if json:
            out.json({"consumers": [state._asdict() for state in found]})
            return
        if not found:
            say("the log is delivered to nobody")
        for state in found:
            out.line(in_words(state))


@outbox_app.command()
def forget(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The consumer's name, as `outbox list` has it.")
    ],
    config: options.Config = None,
    db: options.Db = None,
    server: options.NoServer = None,
) -> None:
    """Keep no cursor for a consumer any more."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.errors import InputError

    async def gone() -> bool:
        async with open_stored(settings_of(config), db) as replan:
            return await replan.forget_consumer(name)

    with own_stdout():
        if not asyncio.run(gone()):
            raise InputError(f"there is no consumer {name!r}; `replan outbox list` has their names")
        say(f"{name} is forgotten; under that name delivery would begin anew")


def in_words(state: ConsumerState) -> str:
    """One line on how a consumer is doing."""
    import time

    from replan.cli.terminal.words import clean, counted, secs, times
    from replan.ports import MOST_BEHIND

    if state.events_behind:
        more = "more than " if state.tasks_behind >= MOST_BEHIND else ""
        since = "" if state.behind_since is None else f", since {secs(time.time() - state.behind_since)}"
        told = f"{more}{counted(state.events_behind, 'event')} of {counted(state.tasks_behind, 'task')} behind{since}"
    else:
        told = "has got everything"
    if not state.read:
        told += "; nobody delivers to it"
    if state.failures:
        told += f"; it has refused {times(state.failures)} in a row: {clean(state.error or '')}"
    return f"{state.name}  {told}"
