"""`replan submit` and `replan worker`: a task handed in for the workers, and a process that takes such tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import Out, own_stdout, say

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.cli.terminal.handing_in import NewTask

GRACE_SECS = 20.0


def submit(
    text: options.Words = None,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    config: options.Config = None,
    metadata: options.Metadata = None,
    secret: options.Secrets = None,
    task_id: options.NewTaskId = None,
    session: options.Session = None,
    after: options.After = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAME", help="Where it waits for a worker; default: default."),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="Higher comes first; default: 0.")
    ] = None,
    db: options.Db = None,
    server: options.Server = None,
    approve: options.Approve = None,
    review_plan: options.ReviewPlan = False,
    evaluation: options.Evaluation = None,
    plan: options.PlanFile = None,
    timeout: options.Timeout = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive/--no-interactive",
            help="Wait for a person where one is needed, who answers with `replan tasks approve|reject|answer`.",
        ),
    ] = True,
    json: options.Json = False,
) -> None:
    """Hand a task in for the workers ([engine] kind = "procrastinate") or to a service, and print its id. It is stored by then."""
    from replan.cli.terminal import loop, opening
    from replan.cli.terminal.handing_in import new_task
    from replan.cli.terminal.remote.meant import service_of
    from replan.errors import InputError

    task = new_task(
        text,
        plan,
        metadata,
        secret,
        task_id=task_id,
        session_id=session,
        previous_task_id=after,
        timeout=timeout,
        evaluation=evaluation,
        queue=queue,
        priority=priority,
    )
    if (address := service_of(db, tools=tools, model=model, endpoint=endpoint)) is not None:
        from replan.cli.terminal.remote.served import as_replan

        with own_stdout() as out:
            loop.run(
                _submit(
                    as_replan(
                        address, approval=approve, review_plan=review_plan or None, interactive=interactive
                    ),
                    task,
                    out,
                    json=json,
                )
            )
        return
    settings = opening.settings_of(config)
    if settings.engine.kind != "procrastinate":
        raise InputError(
            'a task is handed in for workers: set [engine] kind = "procrastinate" (APP_ENGINE_KIND=procrastinate), or '
            "run it here with `replan run`"
        )
    replan = opening.open_replan(
        settings,
        tools=tools,
        model=model,
        endpoint=endpoint,
        db=db,
        approval=approve or settings.approval.mode,
        review_plan=review_plan or settings.approval.review_plan,
        interactive=interactive,
    )
    with own_stdout() as out:
        loop.run(_submit(replan, task, out, json=json))


async def _submit(replan: Replan, task: NewTask, out: Out, *, json: bool) -> None:
    from replan.cli.terminal.again import again
    from replan.cli.terminal.handing_in import hand_in
    from replan.core.state.task import ENDED

    async with replan:
        task_id = await hand_in(replan, task)
        why = await replan.why_waiting(task_id)
        status = (await replan.summary(task_id)).status
    if json:
        out.json({"task_id": task_id, "waits_for": why or None}, compact=True)
    else:
        out.line(task_id)
    if why:
        say(f"{task_id}: {why}")
    if status in ENDED:
        say(f"{task_id} is there already, and has ended ({status}): {again('tasks', 'result', task_id)}")
    else:
        say(f"watch it with: {again('tasks', 'watch', task_id)}")


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            "-c",
            metavar="N",
            min=1,
            help="Tasks at a time; default: [engine] worker_concurrency.",
        ),
    ] = None,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues", metavar="NAME", help="Only tasks of these queues; may be given several times."
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECS", min=0, help="How long running tasks may take to end at SIGTERM."
        ),
    ] = GRACE_SECS,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    config: options.Config = None,
    db: options.Db = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    json: options.Json = False,
) -> None:
    """Take tasks from the queue of a PostgreSQL database and drive them, until SIGTERM or Ctrl-C.

    Those that need a tool or a model that is not here are left to other workers. What it does with each task is a line
    on stderr.
    """
    from replan.cli.terminal import log_lines, loop, opening
    from replan.cli.terminal.inputs import secret_text

    settings = opening.settings_of(config)
    log_lines.begin(settings, log_level, log_format)
    engine = settings.engine.model_copy(update={"kind": "procrastinate"})
    replan = opening.open_replan(
        settings.model_copy(update={"engine": engine}),
        tools=tools,
        model=model,
        endpoint=endpoint,
        api_key=None if api_key is None else secret_text(api_key),
        db=db,
    )
    names = [name for given in queues or () for name in given.split(",") if name]
    with own_stdout() as out:
        loop.run(_work(replan, out, concurrency, names, grace, json=json))
        log_lines.log.info("stopped")


async def _work(
    replan: Replan, out: Out, concurrency: int | None, queues: list[str], grace: float, *, json: bool
) -> None:
    import asyncio
    import os
    import signal
    from functools import partial

    from replan.cli.terminal import log_lines
    from replan.cli.terminal.exits import INTERRUPTED
    from replan.cli.terminal.lasting import last
    from replan.cli.terminal.opening import tell_tool_problems
    from replan.cli.terminal.words import counted

    stop = asyncio.Event()

    def end() -> None:
        if stop.is_set():  # told so twice
            os._exit(INTERRUPTED)
        from replan.core.words import in_digits

        log_lines.log.info(
            "taking no more tasks; those that run may end for %s s (told so again: at once)", in_digits(grace)
        )
        stop.set()

    def ready(count: int) -> None:
        if json:
            out.json({"pid": os.getpid(), "tools": count, "queues": queues}, compact=True)
        else:
            where = f"the queues {', '.join(queues)}" if queues else "all queues"
            out.line(f"taking tasks of {where}, with {counted(count, 'tool')}")

    async def work() -> None:
        tell_tool_problems(replan)
        at_work = partial(ready, len(await replan.tools()))
        await replan.work(concurrency=concurrency, queues=queues, grace_secs=grace, stop=stop, ready=at_work)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await last(replan, stop, work, say=log_lines.log.warning)
