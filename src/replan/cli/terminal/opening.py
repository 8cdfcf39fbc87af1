"""From options to a running Replan: settings, the local model's weights, the facade."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replan.cli.terminal.remote.meant import service_of
from replan.cli.terminal.terminal import own_stdout, secrets, warn
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.config import Settings
    from replan.core.kinds.known import Known
    from replan.wiring import ModelChoice


def settings_of(config: Path | None) -> Settings:
    """The merged settings; warnings are told on stderr."""
    from replan.config import load_settings

    loaded = load_settings(config, env=os.environ, cwd=Path.cwd())
    for warning in loaded.warnings:
        warn(warning)
    return loaded.settings


def open_replan(
    settings: Settings,
    *,
    tools: list[str] | None = None,
    model: ModelChoice = None,
    endpoint: str | None = None,
    db: str | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    **policy: Any,
) -> Replan:
    """The facade with what the options say laid over the settings; nothing is opened before it is entered."""
    from replan.app import Replan
    from replan.core.secrets import secrets_of_settings

    secrets().add_all(secrets_of_settings([endpoint, *(tools or ())]))  # before anything can go wrong with it
    with own_stdout():  # files of tools may print as they are imported
        replan = Replan(
            model,
            list(tools or ()),
            db=db,
            settings=settings,
            endpoint=endpoint,
            record=record,
            replay=replay,
            **policy,
        )
    secrets().also(replan.secrets)
    return replan


def open_stored(settings: Settings, db: str | None) -> Replan:
    """The facade over the store alone: no source of tools is imported, started or asked. Of a service, where one is meant.

    `InputError` where `db` names a file that is not there: who reads does not make one.
    """
    if (address := service_of(db)) is not None:
        from replan.cli.terminal.remote.served import as_replan

        return as_replan(address)
    from replan.wiring import database

    if db is not None and isinstance(path := database(db), Path) and not path.exists():
        near = nearest_file(path)
        hint = f"; did you mean {as_named(near)}?" if near else ""
        raise InputError(f"there is no database {as_named(path)}{hint}")
    return open_replan(without_tools(settings), db=db)


def driven_here(settings: Settings) -> Settings:
    """The settings of a process that drives tasks itself, also where workers take them."""
    return settings.model_copy(update={"engine": settings.engine.model_copy(update={"kind": "local"})})


def without_tools(settings: Settings) -> Settings:
    """The settings without any source of tools."""
    from replan.config import Settings

    bare = Settings()
    return settings.model_copy(update={"tools": bare.tools, "tool_service": bare.tool_service})


def as_named(path: Path) -> Path:
    """The path as a person at this terminal would name it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def nearest_file(path: Path) -> Path | None:
    """The file beside this one whose name is the most like it."""
    from difflib import get_close_matches

    try:
        names = [each.name for each in path.parent.iterdir() if each.is_file()]
    except OSError:
        return None
    near = get_close_matches(path.name, names, 1, cutoff=0.75)
    return path.with_name(near[0]) if near else None


def tell_tool_problems(replan: Any) -> None:
    """Sources of tools that could not be reached, on stderr: the rest works without them."""
    for problem in replan.tool_problems:
        warn(str(problem))


def built_in_model(settings: Settings, model: str | None, endpoint: str | None) -> str | None:
    """The name of the built-in local model, where that answers: asked for as `local`, or nothing else configured."""
    from replan.llm.local.weights import DEFAULT

    llm = settings.llm
    named = model or llm.default_model
    if named is None:
        at_address = endpoint or llm.endpoint or _is_looked_for(settings)
        return None if at_address else llm.local_model or DEFAULT
    kind, _, name = named.partition(":")
    return (name or llm.local_model or DEFAULT) if kind == "local" else None


def _is_looked_for(settings: Settings) -> bool:
    """Whether models are asked at the instances of a service."""
    if settings.llm.service_name is None:
        return False
    from replan.wiring import discovery_of

    return discovery_of(settings).models is not None


def kinds_of(settings: Settings) -> Known:
    """The scenes and workflows that are configured; what is wrong with their files is told by whoever asks."""
    from replan.wiring import open_kinds

    return open_kinds(settings).look(silent=True)


def interactive() -> bool:
    """Whether there is a person at a terminal to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()
