"""`replan tasks resume`: drive a task on from its log, with what it was begun with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.commands.answers import By
from replan.cli.terminal import options
from replan.cli.terminal.task_ids import TaskNames, for_each, full_id
from replan.cli.terminal.terminal import Out, own_stdout

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.events import Record, TaskSubmitted
    from replan.core.report.result import TaskResult


def resume(
    task_ids: TaskNames,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    secret: options.Secrets = None,
    approve: options.Approve = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why a paused task is to go on; recorded with it.")
    ] = "",
    by: By = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Have workers go on, and do not follow: also with several tasks.")
    ] = False,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Drive a task on from its log, when it is paused or no living process drives it; finished steps do not run again."""
    from replan.cli.commands.report import tell_result
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for
    from replan.cli.terminal import loop
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.going_on import Given
    from replan.cli.terminal.inputs import secret_text, secrets_of
    from replan.cli.terminal.opened_again import opened_again
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.cli.terminal.remote.meant import service_of
    from replan.cli.terminal.stricter_here import check_askable
    from replan.config.whoever import whoever
    from replan.core.begun import begun_with
    from replan.core.state.fold import fold
    from replan.errors import InputError, TaskHeld
    from replan.wiring import database

    local = {
        "tools": tools,
        "model": model,
        "endpoint": endpoint,
        "api_key": api_key,
        "approve": approve,
    }
    if (address := service_of(db, **local)) is not None:
        from replan.cli.commands.service.following import resume_there

        resume_there(
            address, task_ids, detach=detach, reason=reason, secrets=secrets_of(secret or []), json=json, events=events, quiet=quiet,
        )  # fmt: skip
        return
    if detach:
        if tools or model or endpoint or api_key or secret or approve:
            raise InputError(
                "a worker drives the task on, with tools, models and secrets of its own: leave --detach out, or --tools, --model, …"
            )
        _hand_on(task_ids, config, db, reason, by)
        return
    if len(task_ids) > 1:
        raise InputError("one task at a time; several go on with --detach, where workers drive them")
    (task_id,) = task_ids
    key = None if api_key is None else secret_text(api_key)

    async def drive(out: Out) -> tuple[TaskResult, bool]:
        settings = settings_of(config)
        given = Given(tools or (), model, endpoint, key, approve)
        async with open_stored(settings, db) as stored:
            past = await stored.history(await full_id(stored, task_id))
            found, submitted = past[0].task_id, _submitted(past)
            summary = await stored.summary(found)
            state = fold(past)
            if state.ended:
                await stored.service.check_resumable(found)  # which says so, and what can be done
            given_any = given.any or bool(secret)
            by_workers = _are_workers_to_drive(settings, submitted, here=given_any)
            if given_any and summary.held:
                raise TaskHeld(
                    f"task {found!r} is being driven by another process, with what that has: leave the options out, or pause it first"
                )
            paused = state.pause is not None
            if paused and (by_workers or summary.held):
                await stored.service.unpause(found, reason=reason, by=whoever(by))
            seal_key = await stored.service.parts.store.seal_key()
        if paused and (by_workers or summary.held):  # whoever drives it, or is woken by that, goes on
            return await _elsewhere(settings, found, past, out), by_workers
        if by_workers:
            engine = settings.engine.model_copy(update={"kind": "procrastinate"})
            return await _by_workers(settings.model_copy(update={"engine": engine}), found, past, out), True
        begun = begun_with(past)
        secrets = _absolute(secrets_of(secret or []))
        place = database(db if db is not None else settings.database_service.connection_string)
        opened = opened_again(
            found, begun, settings, given, state, calls=not _is_to_end(past), seal_key=seal_key, db=str(place)
        )
        replan = opened.replan
        async with replan:
            check_askable(settings, approve, state, begun, replan.service.parts.tools)
            if instead := await opened.instead():
                await replan.service.give_instead(found, instead)
            result = await to_the_end(
                replan,
                found,
                show_for(quiet=quiet),
                out if events else None,
                past=past,
                finish=lambda task_id: replan.resume(task_id, secrets=secrets, reason=reason, by=by),
            )
            return result, False

    async def _elsewhere(settings: Settings, found: str, past: list[Record], out: Out) -> TaskResult:
        async with open_stored(settings, db) as stored:
            shown = show_for(quiet=quiet)
            return await to_the_end(stored, found, shown, out if events else None, past=past, followed=True)

    async def _by_workers(settings: Settings, found: str, past: list[Record], out: Out) -> TaskResult:
        async with open_stored(settings, db) as stored:
            shown = show_for(quiet=quiet)
            return await to_the_end(
                stored, found, shown, out if events else None, past=past, finish=stored.resume, followed=True
            )

    with own_stdout() as out:
        ended, by_workers = loop.run(drive(out))
        tell_result(ended, out, json=json, events=events, by_workers=by_workers)
    raise typer.Exit(of_result(ended))


def _hand_on(task_ids: list[str], config: Path | None, db: str | None, reason: str, by: str | None) -> None:
    """Have workers go on with them."""
    import asyncio

    from replan.cli.commands.store.choosing import standing
    from replan.cli.terminal.again import again
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.errors import InputError

    settings = settings_of(config)
    if "kind" not in settings.engine.model_fields_set:
        engine = settings.engine.model_copy(update={"kind": "procrastinate"})
        settings = settings.model_copy(update={"engine": engine})
    elif settings.engine.kind != "procrastinate":
        raise InputError(
            'nobody else drives tasks here: --detach is for [engine] kind = "procrastinate" (APP_ENGINE_KIND=procrastinate)'
        )

    async def wake() -> bool:
        async with open_stored(settings, db) as replan:

            async def go_on(found: str) -> str:
                one = await standing(replan, await replan.summary(found))
                await replan.hand_on(found, reason, by)
                why = await replan.why_waiting(found)
                if one.row.status == "waiting" and set(one.waits_for) & {"person", "callback", "time"}:
                    rest = f": {why}" if why else ""
                    return f"{found} is {one.stands} still{rest}; see {again('tasks', 'show', found)}"
                return f"{found}: {why or 'a worker goes on with it'}; watch it with: {again('tasks', 'watch', found)}"

            return await for_each(replan, task_ids, go_on)

    with own_stdout():
        well = asyncio.run(wake())
    raise typer.Exit(0 if well else 2)


def _are_workers_to_drive(settings: Settings, submitted: TaskSubmitted, *, here: bool) -> bool:
    """By the configuration; where that does not say, by how the task was submitted; never where an option is for driving it here."""
    from replan.core.limits.needs import WORK

    if here:
        return False
    if "kind" in settings.engine.model_fields_set:
        return settings.engine.kind == "procrastinate"
    return WORK in submitted.settings


def _is_to_end(past: list[Record]) -> bool:
    """Somebody has cancelled it: nothing more is called."""
    from replan.core.state.fold import fold

    cancel = fold(past).cancel
    return cancel is not None and not cancel.until_resumed


def _absolute(secrets: dict[str, str]) -> dict[str, str]:
    """Files by their whole path: they are named from where the command was given."""
    return {
        name: f"file:{Path(path).expanduser().absolute()}" if kind == "file" else source
        for name, source in secrets.items()
        for kind, _, path in [source.partition(":")]
    }


def _submitted(records: list[Record]) -> TaskSubmitted:
    """How the task was submitted: with which tools and models."""
    from replan.core.events import TaskSubmitted
    from replan.errors import StoreUnusable

    first = records[0].event
    if not isinstance(first, TaskSubmitted):
        raise StoreUnusable(f"the log of task {records[0].task_id!r} does not begin with its submission")
    return first
