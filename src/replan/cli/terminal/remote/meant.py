"""Whether a command speaks to a service in place of a database, and to which."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import typer

from replan.cli.terminal.again import carried_server
from replan.errors import InputError

_takes: list[str | None] = []
"""What the present command was given as `--server`; empty for one that takes none."""
_by: list[str] = []
OF_A_DATABASE = "this acts on a database, and not on a service"


def meant(value: str | None) -> str | None:
    """Take note of `--server` of a command that takes it."""
    _takes[:] = [value]
    carried_server(value)
    return value


def refused(value: str | None) -> str | None:
    """`--server` of a command that can do nothing with it."""
    _takes.clear()
    if value is not None:
        raise typer.BadParameter(f"{OF_A_DATABASE}: leave --server out, or run it where the service runs")
    return value


def spoken_for(value: str | None) -> str | None:
    """Take note of `--by`: a service knows itself who calls."""
    _by[:] = [] if value is None or value.startswith("replan ") else [value]
    return value


def service_of(db: str | None, **local: object) -> str | None:
    """The address of the service that is meant, by `--server` or `REPLAN_SERVER`; None: the database is.

    `local`: options that say what a process here has (tools, a model), by their names: `InputError` for those of a service.
    """
    given = _takes[0] if _takes else None
    if given is not None and db is not None:
        raise InputError("--server and --db exclude each other: give one of them")
    address = given if given is not None else os.environ.get("REPLAN_SERVER") if db is None else None
    if not address:
        return None
    if not _takes:
        raise InputError(f"{OF_A_DATABASE} (REPLAN_SERVER is set): give --db, or unset REPLAN_SERVER")
    here = [f"--{name.replace('_', '-')}" for name, value in local.items() if value]
    if here:
        raise InputError(
            f"{', '.join(here)}: a service has its own tools, models and settings: leave {'it' if len(here) == 1 else 'them'} out, "
            "or leave --server out (and unset REPLAN_SERVER)"
        )
    if _by:
        raise InputError("--by: a service knows itself who calls, by the key: leave it out")
    if find_spec("httpx2") is None:
        raise InputError(
            "a service is asked over HTTP, which needs one package more: pip install 'replan[client]'"
        )
    return address


def is_service(replan: object) -> bool:
    """Whether this is a service, in place of a `Replan`."""
    return getattr(replan, "is_service", False)


def speaks_to_service() -> bool:
    """Whether the present command does."""
    return bool(_takes) and (_takes[0] or os.environ.get("REPLAN_SERVER")) is not None


async def by_others(replan: Any, task_id: str) -> bool:
    """Whether workers, or a service, go on with the task by themselves."""
    return is_service(replan) or (await replan.summary(task_id)).queue != ""


def shown(replan: object) -> str:
    """Where the tasks are, for people."""
    if is_service(replan):
        return str(replan.shown)  # type: ignore[attr-defined]
    return str(replan.service.parts.store.shown)  # type: ignore[attr-defined]
