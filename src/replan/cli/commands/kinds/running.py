"""`replan workflows run`: from slots on the command line to the end of the task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from replan.errors import InputError, PlanInvalid

if TYPE_CHECKING:
    from replan.core.kinds.workflow import Workflow

_KIT = "kit:"
_NO_TOOLS = (
    "No tools were named. Those that a workflow calls come from --tools, or from [tools] sources of config.toml; of what its "
    "own `tools` names only the kit's are opened"
)


def run_workflow(
    name: str,
    pairs: list[str],
    text: str | None,
    *,
    tools: list[str] | None,
    model: str | None,
    endpoint: str | None,
    api_key: Any,
    config: Path | None,
    metadata: list[str] | None,
    secret: list[str] | None,
    task_id: str | None,
    db: str | None,
    approve: str | None,
    evaluation: str | None,
    plan_only: bool,
    timeout: float | None,
    json: bool,
    events: bool,
    quiet: bool,
) -> None:
    """Run it here or in a service, show its progress, and exit as `replan run` does."""
    from replan.cli.commands.run import plan_of, run_task
    from replan.cli.terminal import opening
    from replan.cli.terminal.handing_in import NewTask
    from replan.cli.terminal.inputs import metadata_of, secret_text, secrets_of
    from replan.cli.terminal.loop import run as run_loop
    from replan.cli.terminal.remote.meant import service_of
    from replan.cli.terminal.terminal import own_stdout

    if json and events:
        raise typer.BadParameter("--json and --events exclude each other: give one of them")
    request: dict[str, Any] = {
        "metadata": metadata_of(metadata or []),
        "secrets": secrets_of(secret or []),
        "plan": None,
        "task_id": task_id,
        "timeout": timeout,
        "evaluation": evaluation,
        "workflow": name,
    }
    local = {"tools": tools, "model": model, "endpoint": endpoint, "api_key": api_key}
    if (address := service_of(db, **local)) is not None:
        from replan.cli.terminal.remote.served import as_replan

        replan = as_replan(address, approval=approve, interactive=False)
        schemas, description = run_loop(_of_service(address, name))
        text = text or description  # a service takes no task without words
    else:
        settings = opening.settings_of(config)
        found = opening.kinds_of(settings).workflow(name)
        schemas = found.slots
        replan = opening.open_replan(
            settings,
            tools=_sources(found, tools),
            model=model,
            endpoint=endpoint,
            api_key=None if api_key is None else secret_text(api_key),
            db=db,
            approval=approve or settings.approval.mode,
        )
    task = NewTask(text or "", {**request, "slots": slots_of(pairs, schemas)})
    with own_stdout() as out:
        if plan_only:
            run_loop(plan_of(replan, task, out, "json"))
            return
        try:
            code = run_loop(run_task(replan, task, out, json=json, events=events, quiet=quiet))
        except PlanInvalid as error:
            if tools or address is not None:
                raise
            raise InputError(f"{error}\n{_NO_TOOLS}") from None
    raise typer.Exit(code)


def slots_of(pairs: list[str], schemas: dict[str, Any]) -> dict[str, Any]:
    """`NAME=VALUE` pairs by the types of the slots. A name that there is not is told by whoever fills them."""
    from replan.core.kinds.slots import typed

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"--slot {pair!r}: expected NAME=VALUE, like city=Rome")
        if name in found:
            raise InputError(f"--slot {name} is given twice; give it once")
        found[name] = typed(schemas.get(name, {}), text)
    return found


def _sources(found: Workflow, tools: list[str] | None) -> list[str]:
    """The tools that are named; else those of the kit that the workflow names."""
    return tools or [spec for spec in found.specs if spec.startswith(_KIT)]


async def _of_service(address: str, name: str) -> tuple[dict[str, Any], str]:
    from replan.cli.terminal.remote.served import Served
    from replan.cli.terminal.terminal import warn

    async with Served(address) as service:
        found = {one.id: one for one in await service.workflows()}
    if name not in found:
        raise InputError(f"the service has no workflow {name!r}; there are: {', '.join(found) or 'none'}")
    if lacking := found[name].lacking:
        warn(
            f"the service has not every tool that {name} calls: {', '.join(lacking)}; `replan serve --tools …` gives it more"
        )
    return dict(found[name].slots), found[name].description
