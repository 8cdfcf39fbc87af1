"""`replan tasks resume`: drive a task on from its log, with what it was begun with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from replan.cli.terminal import options
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import Out, own_stdout

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.events import Record, TaskSubmitted
    from replan.core.report.result import TaskResult


def resume(
    task_id: TaskName,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    secret: options.Secrets = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Drive a task on from its log, when no living process drives it; finished steps do not run again."""
    from replan.cli.commands.report import tell_result
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for
    from replan.cli.terminal import loop
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.inputs import secret_text, secrets_of
    from replan.cli.terminal.opening import open_replan, open_stored, settings_of
    from replan.errors import InputError

    key = None if api_key is None else secret_text(api_key)

    async def drive(out: Out) -> TaskResult:
        settings = settings_of(config)
        if settings.engine.kind == "procrastinate":
            if tools or model or endpoint or key or secret:
                raise InputError(
                    "a worker drives the task on, with tools, models and secrets of its own: leave --tools, --model, "
                    "--endpoint, --api-key and --secret out"
                )
            return await _by_workers(settings, out)
        async with open_stored(settings, db) as stored:
            past = await stored.history(await full_id(stored, task_id))
        found, submitted = past[0].task_id, _submitted(past)
        named = submitted.settings.get("models") or {}
        if endpoint:  # another endpoint has other models, unless one is named for it
            named = {}
        elsewhere = endpoint is not None or (model is not None and ":" in model)
        begun_at = None if elsewhere else _endpoint_of(submitted, settings)
        if not elsewhere and key is None:
            _key_is_here(submitted, settings)
        try:
            replan = open_replan(
                settings,
                tools=tools or _tools_of(submitted),
                model=model or (named if all(named.values()) else None),
                endpoint=endpoint or begun_at,
                api_key=key,
                db=db,
            )
        except InputError as error:
            begun_with = " ".join(f"--tools {spec}" for spec in submitted.tools)
            if tools or not begun_with:
                raise
            raise InputError(
                f"{error}. The task was begun with {begun_with}: resume it in the folder in which it was begun, or give "
                "its tools anew with --tools"
            ) from error
        async with replan:
            given = secrets_of(secret or [])
            return await to_the_end(
                replan,
                found,
                show_for(quiet=quiet),
                out if events else None,
                past=past,
                finish=lambda task_id: replan.resume(task_id, secrets=given),
            )

    async def _by_workers(settings: Settings, out: Out) -> TaskResult:
        async with open_stored(settings, db) as stored:
            past = await stored.history(await full_id(stored, task_id))
            shown = show_for(quiet=quiet)
            return await to_the_end(
                stored, past[0].task_id, shown, out if events else None, past=past, finish=stored.resume
            )

    with own_stdout() as out:
        ended = loop.run(drive(out))
        tell_result(ended, out, json=json, events=events)
    raise typer.Exit(of_result(ended))


def _endpoint_of(submitted: TaskSubmitted, settings: Settings) -> str | None:
    """Where the task's models were asked, if the configuration does not say that already."""
    from replan.core.secrets import url_without_secrets
    from replan.errors import InputError

    begun_at: str | None = submitted.settings.get("endpoint")
    if begun_at is None or begun_at == url_without_secrets(settings.llm.endpoint or ""):
        return None
    if submitted.settings.get("endpoint_has_password"):
        raise InputError(
            f"the task was begun with the endpoint {begun_at}, whose password no log keeps: give the whole address "
            "again with --endpoint (or another --model)"
        )
    return begun_at


def _key_is_here(submitted: TaskSubmitted, settings: Settings) -> None:
    """`InputError` where the task was begun with a key that no log keeps: without it the task would fail for good."""
    from replan.errors import InputError

    if submitted.settings.get("key_was_given") and not settings.llm.api_key:
        raise InputError(
            "the task was begun with a key for the model, which no log keeps: give it again with --api-key, or as "
            "APP_LLM_API_KEY in the environment"
        )


def _tools_of(submitted: TaskSubmitted) -> list[str]:
    """The tools that the task was begun with, if the log has all that they were named with."""
    from replan.core.secrets import MASK
    from replan.errors import InputError

    if masked := [spec for spec in submitted.tools if MASK in spec]:
        raise InputError(
            f"the task was begun with --tools {masked[0]!r}, whose secret no log keeps: give all its tools again "
            "with --tools"
        )
    return list(submitted.tools)


def _submitted(records: list[Record]) -> TaskSubmitted:
    """How the task was submitted: with which tools and models."""
    from replan.core.events import TaskSubmitted
    from replan.errors import StoreUnusable

    first = records[0].event
    if not isinstance(first, TaskSubmitted):
        raise StoreUnusable(f"the log of task {records[0].task_id!r} does not begin with its submission")
    return first
