"""`replan tasks fork`: a new task that goes on from an event of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.commands.answers import By
from replan.cli.commands.people.interventions import Reason
from replan.cli.commands.resume import resume
from replan.cli.terminal import options
from replan.cli.terminal.again import again
from replan.cli.terminal.task_ids import TaskName, full_id
from replan.cli.terminal.terminal import own_stdout, say
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.cli.terminal.opened_again import Opened
    from replan.core.state.task import State
    from replan.run.service.forking import Forking


def fork(
    task_id: TaskName,
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="SEQ",
            help="The last event to share; default: the last there is, of an ended task the last before its end.",
            show_default=False,
        ),
    ] = None,
    hint: Annotated[
        str, typer.Option("--hint", metavar="TEXT", help="What is to be heeded from there on.")
    ] = "",
    plan: options.PlanFile = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            "--retry", metavar="STEP", help="Try this failed step again; may be given several times."
        ),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge again what was done, and do nothing else.")
    ] = False,
    new_id: options.NewTaskId = None,
    approve: options.Approve = None,
    evaluation: options.Evaluation = None,
    timeout: options.Timeout = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Store it and print its id; whoever resumes it goes on.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    secret: options.Secrets = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on from an event of a task, ended or not, in a new one that shares the history before it.

    What was done is not done again: neither before that event, nor what the other task does after it.
    """
    import asyncio
    import os
    from pathlib import Path

    from replan.app.intervening import changed_policy
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.going_on import Given
    from replan.cli.terminal.inputs import plan_file, secret_text
    from replan.cli.terminal.opened_again import opened_again
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.cli.terminal.remote.meant import service_of
    from replan.cli.terminal.stricter_here import (
        approval_of,
        check_askable,
        told_of_approval,
        with_own_rules,
    )
    from replan.config.whoever import whoever
    from replan.core.begun import Begun, begun_with
    from replan.core.limits.policy import stricter_approval
    from replan.run.service.for_workers import work_of_fork
    from replan.run.service.forking import Forking
    from replan.wiring import database

    local = {"tools": tools, "model": model, "endpoint": endpoint, "api_key": api_key, "secret": secret}
    if (address := service_of(db, **local)) is not None:
        from replan.cli.commands.service.following import fork_there

        there: dict[str, Any] = {
            "at": at, "fork_id": new_id, "hint": hint, "plan": None if plan is None else plan_file(plan),
            "retry": tuple(retry or ()), "judge": judge, "timeout": timeout, "reason": reason,
            "approval": approve, "evaluation": evaluation,
        }  # fmt: skip
        fork_there(address, task_id, there, detach=detach, json=json, events=events, quiet=quiet)
        return
    settings = settings_of(config)
    wanted = Forking(
        at=at, task_id=new_id, hint=hint, plan=None if plan is None else plan_file(plan), retry=tuple(retry or ()),
        judge=judge, reason=reason, by=whoever(by),
    )  # fmt: skip
    key = None if api_key is None else secret_text(api_key)
    given = Given(tools or (), model, endpoint, key, approve)
    anew = given._replace(approve=None).any  # beside the policy
    if detach and secret:
        raise InputError("no log keeps a secret: leave --secret out, and give it to `replan tasks resume`")

    async def stored(wanted: Forking) -> tuple[str, bool]:
        async with open_stored(settings, db) as replan:
            origin = await full_id(replan, task_id)
            place = await replan.service.fork_place(origin, wanted)
            queued = (await replan.summary(origin)).queue != ""
            if "kind" in settings.engine.model_fields_set:
                queued = settings.engine.kind == "procrastinate"
            # Workers ask by what is configured for them: who says that less is to be asked drives it.
            less = approve is not None and stricter_approval(settings.approval.mode, approve)
            by_workers = queued and (detach or not (anew or secret or less))
            asked = approve if judge else approval_of(settings, approve, place[1].policy)
            if asked and not anew and approve is None and not place[1].policy.interactive:
                if detach or by_workers:
                    check_askable(settings, approve, place[1], Begun(), None)
                asked = None  # whether anybody has to be asked is seen below, as it is resumed
            changes: Any = {"approval": asked, "evaluation": evaluation}
            changes = {name: value for name, value in changes.items() if value is not None}
            wanted = wanted._replace(policy=changed_policy(place[1].policy, wanted, timeout, changes))
            policy = wanted.policy or place[1].policy
            if hint and policy.evaluation == "steps" and (place[1].given or place[1].evaluation is not None):
                say(
                    "no model is asked by this fork, so that the hint is heard by nobody: --evaluation model has one judge"
                )
            store = replan.service.parts.store
            if by_workers and key:
                raise InputError("a worker asks models with a key of its own: leave --api-key out")
            begun, seal_key = begun_with((await replan.history(origin))[: place[0]]), await store.seal_key()
            if not anew:
                if detach or by_workers:  # else it is resumed below, with what is configured here
                    wanted = with_own_rules(wanted, begun, settings, approve, place[1].policy, seal_key)
                work = await work_of_fork(store, origin, place[1], wanted) if by_workers else None
                made, _ = await replan.service.fork(origin, wanted, place, work=work)
                rest = f": {told_of_approval(asked)}" if asked and approve is None else ""
                say(f"{made} goes on from event {place[0]} of {origin}{rest}")
                return made, by_workers
        here = Path.cwd()
        try:  # what is given is looked at before anything is stored, and is stored with it
            opened = opened_again(
                f"the fork of {origin}", begun, settings, given, place[1], calls=not judge, seal_key=seal_key,
                db=str(database(db if db is not None else settings.database_service.connection_string)),
            )  # fmt: skip
            async with opened.replan as replan:
                if not judge:
                    check_askable(settings, approve, place[1], begun, replan.service.parts.tools)
                made = await _with_what_is_given(replan, origin, wanted, place, opened, by_workers=by_workers)
        finally:
            os.chdir(here)
        say(f"{made} goes on from event {place[0]} of {origin}")
        return made, by_workers

    async def follow(made: str) -> Any:
        async with open_stored(settings, db) as replan:
            return await to_the_end(replan, made, show_for(quiet=quiet), out if events else None)

    with own_stdout() as out:
        made, by_workers = asyncio.run(stored(wanted))
        if detach:
            if json:
                out.json({"task_id": made}, compact=True)
            else:
                out.line(made)
            verb = "watch" if by_workers else "resume"
            say(f"{'watch it' if by_workers else 'go on with it'}: {again('tasks', verb, made)}")
            return
        if by_workers:
            from replan.cli.commands.report import tell_result
            from replan.cli.terminal import loop

            ended = loop.run(follow(made))
            tell_result(ended, out, json=json, events=events, by_workers=True)
            raise typer.Exit(of_result(ended))
    resume(
        [made], tools=tools, model=model, endpoint=endpoint, api_key=api_key, secret=secret, approve=approve, config=config, db=db,
        json=json, events=events, quiet=quiet,
    )  # fmt: skip


async def _with_what_is_given(
    replan: Replan,
    origin: str,
    wanted: Forking,
    place: tuple[int, State],
    opened: Opened,
    *,
    by_workers: bool,
) -> str:
    """Store the fork with the tools and models that are given; its id. `InputError` before that, if it could not go on with them."""
    from replan.run.service.for_workers import work_of_fork
    from replan.run.service.resumable import tools_missing, why_missing

    parts, (_, state) = replan.service.parts, place
    if wanted.plan is None and (missing := tools_missing(state, parts.tools)):
        raise InputError(f"task {origin!r}: {why_missing(state, missing, parts.tools)}")
    begun = await opened.anew()
    work = None
    if by_workers:
        tools = parts.tools if begun.tools != opened.begun.tools else None
        work = await work_of_fork(parts.store, origin, state, wanted, begun=begun, tools=tools)
    wanted = wanted._replace(tools=begun.tools, settings=begun.settings)
    return (await replan.service.fork(origin, wanted, place, work=work))[0]
