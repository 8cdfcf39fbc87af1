"""`replan doctor`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import own_stdout, paint

if TYPE_CHECKING:
    from replan.cli.doctor.findings import Finding

CHECKS = ("extras", "registry", "audit", "model", "database", "tools")
"""That may be left out."""


def doctor(
    tools: options.Tools = None,
    config: options.Config = None,
    db: options.Db = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="CHECK",
            help=f"Leave one out, as this machine does without: {', '.join(CHECKS)}. May be given several times.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check Python, extras, configuration, registries of services, the topic of audit records, model, sources of tools, database, workers, and tasks that do not go on.

    Nothing is changed in the database. Exit code 1 if something does not work; each such line says what to do.
    """
    from replan.errors import InputError

    for name in without or ():
        if name not in CHECKS:
            raise InputError(f"--without {name!r}: there are {', '.join(CHECKS)}")
    with own_stdout() as out:
        findings = list(examine(config, db, tools or [], without or ()))
        if json:
            out.json({"ok": _well(findings), "checks": [asdict(finding) for finding in findings]})
        else:
            width = max(len(finding.name) for finding in findings)
            for finding in findings:
                colour = {"ok": "green", "note": "yellow", "problem": "red"}[finding.state]
                state = paint(f"{finding.state:<7}", colour, sys.stdout)
                out.line(f"{finding.name:<{width}}  {state}  {finding.found}")
                if finding.todo:
                    out.line(f"{'':<{width}}           → {finding.todo}")
    raise typer.Exit(0 if _well(findings) else 1)


def _well(findings: list[Finding]) -> bool:
    return all(finding.state != "problem" for finding in findings)


def examine(
    config: Path | None, db: str | None, tools: Sequence[str] = (), without: Sequence[str] = ()
) -> Iterator[Finding]:
    """Every check in turn; one that fails does not stop the others."""
    from replan.cli.doctor import asked, audit, here, registry
    from replan.cli.doctor.database import database, place, usable
    from replan.cli.doctor.findings import guarded
    from replan.config import Settings

    yield here.python()
    if "extras" not in without:
        yield from here.extras()
    loaded, finding = here.configuration(config)
    yield finding
    settings = loaded.settings if loaded else Settings()
    if "registry" not in without:
        yield from guarded("registry", lambda: registry.services(settings))
    if "audit" not in without:
        yield from guarded("audit", lambda: audit.topic(settings))
    yield from guarded("scenes", lambda: here.kinds(settings))
    if "model" not in without:
        yield from guarded("model", lambda: asked.models(settings))
    found = [] if "database" in without else list(guarded("store", lambda: database(settings, db)))
    yield from found
    where = place(settings, db) if usable(found) else None
    if "tools" not in without:
        yield from guarded("tools", lambda: asked.tools(settings, tools, where))
