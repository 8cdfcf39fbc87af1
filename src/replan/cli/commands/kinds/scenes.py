"""`replan scenes list|show|check`: guidance for kinds of tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from replan.cli.commands.kinds.checked import Files, tell_checked, tell_problems
from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import own_stdout

scenes_app = typer.Typer(
    name="scenes",
    help="List, show and check scenes: guidance for kinds of tasks.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@scenes_app.command(name="list")
def list_scenes(
    config: options.Config = None, server: options.Server = None, json: options.Json = False
) -> None:
    """List the scenes of the configuration, or of a service."""
    import asyncio

    from replan.cli.terminal.words import clean

    with own_stdout() as out:
        rows = asyncio.run(_rows(config))
        if json:
            out.json(rows)
        else:
            width = max((len(row["task_type"]) for row in rows), default=0)
            for row in rows:
                guides = ", ".join(row["guides"]) or "no guidance"
                out.line(f"{row['task_type']:<{width}}  {clean(row['description'], 100)}  ({guides})")


@scenes_app.command()
def show(
    task_type: Annotated[str, typer.Argument(metavar="TYPE", help="The kind of task.")],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show one scene: what it says to each role."""
    from replan.cli.terminal.opening import kinds_of, settings_of
    from replan.cli.terminal.words import printable
    from replan.core.kinds.scene import DEFAULT, ROLES, Scene
    from replan.errors import InputError

    known = kinds_of(settings_of(config))
    tell_problems(known)
    scene = known.scenes.get(task_type)
    if scene is None and task_type == DEFAULT:
        with own_stdout() as out:
            if json:
                out.json({**Scene(task_type=DEFAULT).model_dump(mode="json"), "source": "built in"})
            else:
                out.line(f"{DEFAULT}: every task that is of no other kind; no file says anything to it")
        return
    if scene is None:
        there = ", ".join(known.scenes) or "none: name their files in [scenes] paths"
        raise InputError(f"there is no scene {task_type!r}; there are: {there}")
    with own_stdout() as out:
        if json:
            out.json({**scene.model_dump(mode="json"), "source": known.sources[f"scene {task_type}"]})
            return
        out.line(f"{scene.task_type}: {scene.description}".rstrip(": "))
        out.line(known.sources[f"scene {task_type}"])
        for role in ROLES:
            if said := scene.guidance(role):
                out.line(f"\n{role}:\n{printable(said)}")


@scenes_app.command()
def check(paths: Files = None, config: options.Config = None, json: options.Json = False) -> None:
    """Check files of scenes; each problem with its line. Exit code 1 if there is one."""
    from replan.cli.terminal.opening import kinds_of, settings_of
    from replan.kinds.library import Library

    known = (
        Library([path.absolute() for path in paths], built_in=False).look(silent=True)
        if paths
        else kinds_of(settings_of(config))
    )
    with own_stdout() as out:
        tell_checked(out, known, "scene", known.scenes, json=json)


async def _rows(config: Any) -> list[dict[str, Any]]:
    from replan.cli.terminal.opening import kinds_of, settings_of
    from replan.cli.terminal.remote.meant import service_of

    if (address := service_of(None, config=config)) is not None:
        from replan.cli.terminal.remote.served import Served

        async with Served(address) as service:
            return [one.model_dump(mode="json") for one in await service.scenes()]
    from replan.run.access.catalogue import scene

    known = kinds_of(settings_of(config))
    tell_problems(known)
    return [scene(one).model_dump(mode="json") for one in known.every_scene]
