"""`replan tasks resume|fork` of a service: it goes on itself, and the command follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import for_each, full_id
from replan.cli.terminal.terminal import Out, own_stdout, say
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.core.report.result import TaskResult


def resume_there(
    address: str,
    task_ids: Sequence[str],
    *,
    detach: bool,
    reason: str,
    secrets: Mapping[str, str],
    json: bool,
    events: bool,
    quiet: bool,
) -> None:
    """Have the service go on with the task, and follow it; `detach`: with several, and do not. `secrets`: where they are read, here."""
    import asyncio

    from replan.cli.terminal import loop
    from replan.cli.terminal.remote.served import as_replan

    async def hand_on() -> bool:
        async with as_replan(address) as service:

            async def go_on(found: str) -> str:
                await service.hand_on(found, reason, secrets=secrets)  # type: ignore[call-arg]  # of a service
                return (
                    f"{found}: the service goes on with it; watch it with: {again('tasks', 'watch', found)}"
                )

            return await for_each(service, task_ids, go_on)

    async def drive(out: Out) -> TaskResult:
        async with as_replan(address) as service:
            found = await full_id(service, task_ids[0])
            past = await service.history(found)
            return await _follow(
                service, found, out, events=events, quiet=quiet, past=past,
                finish=lambda task_id: service.resume(task_id, reason=reason, secrets=secrets),
            )  # fmt: skip

    if detach:
        with own_stdout():
            well = asyncio.run(hand_on())
        raise typer.Exit(0 if well else 2)
    if len(task_ids) > 1:
        raise InputError("one task at a time; several go on with --detach")
    with own_stdout() as out:
        ended = loop.run(drive(out))
        _tell(ended, out, json=json, events=events)


def fork_there(
    address: str,
    task_id: str,
    wanted: dict[str, Any],
    *,
    detach: bool,
    json: bool,
    events: bool,
    quiet: bool,
) -> None:
    """Have the service make the fork and drive it, and follow it. `wanted`: keywords of `Client.fork`."""
    import asyncio

    from replan.cli.terminal import loop
    from replan.cli.terminal.remote.served import as_replan

    async def make() -> str:
        async with as_replan(address) as service:
            origin = await full_id(service, task_id)
            made = await service.fork(origin, **wanted)
            say(f"{made} goes on from {origin}")
            return made

    async def follow(made: str, out: Out) -> TaskResult:
        async with as_replan(address) as service:
            return await _follow(service, made, out, events=events, quiet=quiet)

    with own_stdout() as out:
        made = asyncio.run(make())
        if not detach:
            _tell(loop.run(follow(made, out)), out, json=json, events=events)
        if json:
            out.json({"task_id": made}, compact=True)
        else:
            out.line(made)
        say(f"watch it: {again('tasks', 'watch', made)}")


async def _follow(
    service: Replan,
    task_id: str,
    out: Out,
    *,
    events: bool,
    quiet: bool,
    past: Sequence[Any] = (),
    finish: Callable[[str], Awaitable[TaskResult]] | None = None,
) -> TaskResult:
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for

    shown = show_for(quiet=quiet)
    told = out if events else None
    return await to_the_end(service, task_id, shown, told, past=past, finish=finish, followed=True)


def _tell(ended: TaskResult, out: Out, *, json: bool, events: bool) -> None:
    from replan.cli.commands.report import tell_result
    from replan.cli.terminal.exits import of_result

    tell_result(ended, out, json=json, events=events, by_workers=True)
    raise typer.Exit(of_result(ended))
