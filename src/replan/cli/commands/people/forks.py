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

if TYPE_CHECKING:
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
    json: options.Json = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on from an event of a task, ended or not, in a new one that shares the history before it.

    What was done is not done again: neither before that event, nor what the other task does after it.
    """
    import asyncio

    from replan.app.intervening import changed_policy
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.inputs import plan_file
    from replan.cli.terminal.opening import open_stored, settings_of
    from replan.config.whoever import whoever
    from replan.run.service.for_workers import work_of_fork
    from replan.run.service.forking import Forking

    settings = settings_of(config)
    given: Any = {"approval": approve, "evaluation": evaluation}
    changes = {name: value for name, value in given.items() if value is not None}
    wanted = Forking(
        at=at, task_id=new_id, hint=hint, plan=None if plan is None else plan_file(plan), retry=tuple(retry or ()),
        judge=judge, reason=reason, by=whoever(by),
    )  # fmt: skip
    elsewhere = bool(tools or model or endpoint or api_key or secret)

    async def stored(wanted: Forking) -> tuple[str, bool]:
        async with open_stored(settings, db) as replan:
            origin = await full_id(replan, task_id)
            place = await replan.service.fork_place(origin, wanted)
            wanted = wanted._replace(policy=changed_policy(place[1].policy, wanted, timeout, changes))
            queued = (await replan.summary(origin)).queue != ""
            if "kind" in settings.engine.model_fields_set:
                queued = settings.engine.kind == "procrastinate"
            by_workers = queued and not elsewhere
            store = replan.service.parts.store
            work = await work_of_fork(store, origin, place[1], wanted.plan) if by_workers else None
            made, _ = await replan.service.fork(origin, wanted, place, work=work)
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
            tell_result(ended, out, json=json, events=events)
            raise typer.Exit(of_result(ended))
    resume(
        made, tools=tools, model=model, endpoint=endpoint, api_key=api_key, secret=secret, approve=approve, config=config, db=db,
        json=json, events=events, quiet=quiet,
    )  # fmt: skip
