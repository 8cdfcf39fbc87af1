"""`replan workflows list|show|check|run`: plans that are written beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.commands.kinds.checked import Files, tell_checked, tell_problems
from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import own_stdout, say

if TYPE_CHECKING:
    from replan.core.kinds.known import Known
    from replan.core.kinds.workflow import Workflow

workflows_app = typer.Typer(
    name="workflows",
    help="List, show, check and run workflows: plans that are written beforehand, with slots.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]


@workflows_app.command(name="list")
def list_workflows(
    config: options.Config = None, server: options.Server = None, json: options.Json = False
) -> None:
    """List the workflows of the configuration, or of a service, and those that ship with Replan; exit code 1 if there are none."""
    import asyncio

    from replan.cli.terminal.words import clean

    with own_stdout() as out:
        rows = asyncio.run(_rows(config))
        if json:
            out.json(rows)
        else:
            heads = [f"{row['id']}({', '.join(_slot(row, name) for name in row['slots'])})" for row in rows]
            for row, head in zip(rows, heads, strict=True):
                out.line(
                    f"{head}: {clean(row['description'], 120)}{' (built in)' if row['built_in'] else ''}"
                )
    if not rows:
        raise typer.Exit(1)


def _slot(row: dict[str, Any], name: str) -> str:
    return name if name in row["required"] else f"{name}?"


@workflows_app.command()
def show(workflow: Id, config: options.Config = None, json: options.Json = False) -> None:
    """Show one workflow as JSON, as a file of it may have it (a beginning for your own); where it comes from goes to stderr."""
    from replan.cli.terminal.opening import kinds_of, settings_of

    known = kinds_of(settings_of(config))
    tell_problems(known)
    found = known.workflow(workflow)
    say(f"workflow {workflow}: {known.sources[f'workflow {workflow}']}")
    with own_stdout() as out:
        out.json(_as_written(found))


def _as_written(found: Workflow) -> dict[str, Any]:
    values = {
        "id": found.workflow_id,
        "description": found.description,
        "task_type": found.task_type,
        "tools": found.specs,
        "slots": found.slots,
        "optional": found.optional,
        "steps": found.steps,
    }
    return {name: value for name, value in values.items() if value}


@workflows_app.command()
def check(paths: Files = None, config: options.Config = None, json: options.Json = False) -> None:
    """Check files of workflows; each problem with its line. Exit code 1 if there is one."""
    from replan.cli.terminal.opening import kinds_of, settings_of
    from replan.kinds.library import Library

    if paths:
        known = Library([], [path.absolute() for path in paths], built_in=False).look(silent=True)
    else:
        known = kinds_of(settings_of(config))
    with own_stdout() as out:
        tell_checked(out, known, "workflow", known.workflows, json=json)


@workflows_app.command()
def run(
    workflow: Id,
    slot: Annotated[
        list[str] | None,
        typer.Option(
            "--slot",
            metavar="NAME=VALUE",
            help="What a slot is filled with, as its type says: text, or JSON.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="TEXT", help="What is to be done, in words; default: its description."
        ),
    ] = None,
    tools: options.Tools = None,
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    api_key: options.ApiKey = None,
    config: options.Config = None,
    metadata: options.Metadata = None,
    secret: options.Secrets = None,
    task_id: options.NewTaskId = None,
    db: options.Db = None,
    server: options.Server = None,
    approve: options.Approve = None,
    evaluation: options.Evaluation = "steps",
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Print the plan that it comes to, and run nothing.")
    ] = False,
    timeout: options.Timeout = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result object on stdout.")] = False,
    events: options.Events = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a workflow with its slots. Its steps judge themselves, so no model is needed."""
    from replan.cli.commands.kinds.running import run_workflow

    run_workflow(
        workflow, slot or [], text, tools=tools, model=model, endpoint=endpoint, api_key=api_key, config=config,
        metadata=metadata, secret=secret, task_id=task_id, db=db, approve=approve, evaluation=evaluation,
        plan_only=plan_only, timeout=timeout, json=json, events=events, quiet=quiet,
    )  # fmt: skip


async def _rows(config: Any) -> list[dict[str, Any]]:
    from replan.cli.terminal.remote.meant import service_of

    if (address := service_of(None, config=config)) is not None:
        from replan.cli.terminal.remote.served import Served

        async with Served(address) as service:
            return [one.model_dump(mode="json") for one in await service.workflows()]
    return _own_rows(config)


def _own_rows(config: Any) -> list[dict[str, Any]]:
    from replan.cli.terminal.opening import kinds_of, settings_of

    known: Known = kinds_of(settings_of(config))
    tell_problems(known)
    return [
        {
            "id": one.workflow_id,
            "description": one.description,
            "slots": one.slots,
            "required": one.required,
            "steps": len(one.steps),
            "tools": one.tools,
            "task_type": one.task_type,
            "built_in": one.built_in,
            "digest": one.digest,
        }
        for _, one in sorted(known.workflows.items())
    ]
