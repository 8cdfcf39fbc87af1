"""`replan run`: one task, from its words to its answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.terminal import options
from replan.cli.terminal.again import carried_record

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.cli.live.show import Show
    from replan.cli.terminal.handing_in import NewTask
    from replan.cli.terminal.terminal import Out
    from replan.core.events import Record
    from replan.core.report.result import TaskResult


def run(
    text: options.Words = None,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    config: options.Config = None,
    metadata: options.Metadata = None,
    secret: options.Secrets = None,
    task_id: options.NewTaskId = None,
    session: options.Session = None,
    after: options.After = None,
    db: options.Db = None,
    server: options.Server = None,
    approve: options.Approve = None,
    review_plan: options.ReviewPlan = False,
    evaluation: options.Evaluation = None,
    plan: options.PlanFile = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Print the checked plan and run nothing; --format says how.")
    ] = False,
    plan_format: options.PlanFormat = "json",
    timeout: options.Timeout = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Record the model's answers to this file.",
            callback=carried_record,
        ),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Take the model's answers from this file.")
    ] = None,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--no-interactive",
            help="Wait for a person where one is needed: at this terminal, or by `replan tasks approve|reject|answer`.",
            show_default=False,
        ),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Hand it in for the workers and print its id, as `replan submit`."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result object on stdout.")] = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Run one task: plan it, run the plan, judge the outcome, print the answer."""
    from replan.cli.terminal import opening
    from replan.cli.terminal.handing_in import new_task
    from replan.cli.terminal.inputs import recording_file, secret_text
    from replan.cli.terminal.loop import run as run_loop
    from replan.cli.terminal.remote.meant import service_of
    from replan.cli.terminal.terminal import own_stdout, warn

    if detach:
        _exclusive({"--detach": True, "--events": events, "--plan-only": plan_only})
        _exclusive({"--detach": True, "--record": record, "--replay": replay, "--api-key": api_key})
        from replan.cli.commands.workers import submit

        submit(
            text, tools=tools, model=model, endpoint=endpoint, config=config, metadata=metadata, secret=secret, task_id=task_id,
            session=session, after=after, db=db, server=server, approve=approve, review_plan=review_plan, evaluation=evaluation, plan=plan, timeout=timeout,
            interactive=interactive is not False, json=json,
        )  # fmt: skip
        return
    _exclusive({"--json": json, "--events": events})
    _exclusive({"--record": record, "--replay": replay})
    task = new_task(
        text, plan, metadata, secret, task_id=task_id, session_id=session, previous_task_id=after, timeout=timeout,
        evaluation=evaluation,
    )  # fmt: skip
    if record is not None:
        recording_file(record)
    local = {
        "tools": tools,
        "model": model,
        "endpoint": endpoint,
        "api_key": api_key,
        "record": record,
        "replay": replay,
    }
    if (address := service_of(db, **local)) is not None:
        from replan.cli.terminal.remote.served import as_replan

        service = as_replan(
            address, approval=approve, review_plan=review_plan or None, interactive=bool(interactive)
        )
        with own_stdout() as out:
            if plan_only:
                run_loop(plan_of(service, task, out, plan_format))
                return
            code = run_loop(run_task(service, task, out, json=json, events=events, quiet=quiet))
        raise typer.Exit(code)
    settings = opening.settings_of(config)
    if (approve or settings.approval.mode) != "never" and not interactive:
        warn(
            "nobody is asked without --interactive: a call that needs approval is not made, and its step fails"
        )
    judged_by = evaluation or settings.orchestrator.evaluation
    replan = opening.open_replan(
        settings,
        tools=tools,
        model=model,
        endpoint=endpoint,
        api_key=None if api_key is None else secret_text(api_key),
        db=db,
        record=record,
        replay=replay,
        approval=approve or settings.approval.mode,
        review_plan=review_plan or settings.approval.review_plan,
        interactive=bool(interactive),
    )
    here = settings.engine.kind == "local"
    asks_a_model = here and replay is None and (task.plan is None or (judged_by == "model" and not plan_only))
    if asks_a_model and (built_in := opening.built_in_model(settings, model, endpoint)):
        from replan.cli.commands.model import have_weights

        have_weights(built_in, planned=task.plan is not None)
    with own_stdout() as out:
        if plan_only:
            run_loop(plan_of(replan, task, out, plan_format))
            return
        code = run_loop(run_task(replan, task, out, json=json, events=events, quiet=quiet))
    raise typer.Exit(code)


def _exclusive(given: dict[str, Any]) -> None:
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise typer.BadParameter(f"{' and '.join(named)} exclude each other: give one of them")


async def run_task(replan: Replan, task: NewTask, out: Out, *, json: bool, events: bool, quiet: bool) -> int:
    from replan.cli.commands.ask import answer_all
    from replan.cli.commands.report import tell_result
    from replan.cli.live.follow import to_the_end
    from replan.cli.live.show import show_for
    from replan.cli.terminal.exits import of_result
    from replan.cli.terminal.handing_in import hand_in
    from replan.cli.terminal.opening import interactive as at_terminal
    from replan.cli.terminal.remote.meant import by_others
    from replan.cli.terminal.terminal import say

    async with replan:
        there = (named := task.request["task_id"]) is not None and await known(replan, named)
        task_id = await hand_in(replan, task)
        if there:
            say(f"task {task_id} is there already: nothing that it has done is done again")
        result = await to_the_end(replan, task_id, show_for(quiet=quiet), out if events else None)
        while result.status == "waiting" and at_terminal():
            past = await replan.history(task_id)
            if not await answer_all(replan, result):
                break
            result = await _go_on(replan, task_id, show_for(quiet=quiet), out if events else None, past)
        by_workers = await by_others(replan, task_id)
    tell_result(result, out, json=json, events=events, by_workers=by_workers)
    return of_result(result)


async def _go_on(
    replan: Replan, task_id: str, show: Show, events: Out | None, past: list[Record]
) -> TaskResult:
    """Drive a task on whose questions were answered, or follow whoever does by now."""
    from replan.cli.live.follow import to_the_end
    from replan.errors import TaskEnded, TaskHeld

    async def finish(task_id: str) -> TaskResult:
        try:
            return await replan.resume(task_id)
        except TaskEnded:
            return await replan.result(task_id)
        except TaskHeld:
            return await replan.wait(task_id)

    return await to_the_end(replan, task_id, show, events, past=past, finish=finish)


async def known(replan: Replan, task_id: str) -> bool:
    """Whether the store has a task of that id."""
    from replan.errors import TaskNotFound

    try:
        await replan.summary(task_id)
    except TaskNotFound:
        return False
    return True


_OF_PLAN = (
    "metadata",
    "evaluation",
    "session_id",
    "previous_task_id",
    "plan",
    "secrets",
    "workflow",
    "slots",
)


async def plan_of(replan: Replan, task: NewTask, out: Out, form: options.PlanForm) -> None:
    from replan.cli.commands.plans import tell_plan
    from replan.cli.terminal.handing_in import known_before
    from replan.cli.terminal.opening import tell_tool_problems

    async with replan:
        tell_tool_problems(replan)
        task = await known_before(replan, task)
        request = {name: task.request[name] for name in _OF_PLAN if name in task.request}
        plan = await replan.plan(task.words, **request)
    tell_plan(out, plan, form)
