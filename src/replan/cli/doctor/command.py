"""`replan doctor`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from replan.cli.terminal import options
from replan.cli.terminal.terminal import own_stdout, paint
from replan.cli.terminal.words import counted, secs

if TYPE_CHECKING:
    from replan.config import Loaded, Settings
    from replan.engine.procrastinate.queue import Line, Worker


@dataclass(frozen=True)
class Finding:
    """One line. `problem`: something configured or needed does not work; `note`: optional and not there."""

    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    todo: str = ""


def doctor(
    tools: options.Tools = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Check Python, extras, configuration, model, store and sources of tools; exit code 1 if something does not work."""
    with own_stdout() as out:
        findings = list(examine(config, db, tools or []))
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


def examine(config: Path | None, db: str | None, tools: Sequence[str] = ()) -> Iterator[Finding]:
    """Every check in turn; one that fails does not stop the others."""
    from replan.config import Settings

    yield _python()
    yield from _extras()
    loaded, finding = _configuration(config)
    yield finding
    settings = loaded.settings if loaded else Settings()
    yield _guarded("model", lambda: _model(settings))
    yield _guarded("store", lambda: _store(settings, db))
    if settings.engine.kind == "procrastinate":
        yield from _many("workers", lambda: _workers(settings, db))
    yield from _tools(settings, tools)


def _many(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    from replan.errors import ReplanError

    try:
        return check()
    except ReplanError as error:
        return [Finding(name, "problem", str(error))]


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    from replan.errors import ReplanError

    try:
        return check()
    except ReplanError as error:
        return Finding(name, "problem", str(error))
    except Exception as error:  # noqa: BLE001 - one broken check is a finding, not the end of the others
        return Finding(name, "problem", f"{type(error).__name__}: {error}")


def _python() -> Finding:
    from importlib.metadata import version

    found = f"replan {version('replan')}, Python {platform.python_version()} on {platform.system()} ({platform.machine()})"
    return Finding("python", "ok", found)


def _extras() -> Iterator[Finding]:
    for extra, modules, use in (
        ("models", ("pydantic_ai",), "endpoints and providers"),
        ("local", ("xllamacpp",), "the built-in model"),
        ("mcp", ("mcp",), "tools of MCP servers"),
        ("openapi", ("httpx2", "yaml"), "tools of OpenAPI documents"),
        ("remote", ("httpx2", "grpc", "google.protobuf", "starlette", "uvicorn"), "tool services"),
        ("kit", ("httpx2", "duckdb"), "kit:http and kit:data"),
        ("postgres", ("psycopg",), "tasks in a PostgreSQL database"),
        ("workers", ("psycopg", "procrastinate"), "tasks that workers take"),
    ):
        missing = [module for module in modules if not _installed(module)]
        if not missing:
            yield Finding(f"extra {extra}", "ok", f"{modules[-1]} is installed ({use})")
        else:
            yield Finding(
                f"extra {extra}",
                "note",
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed ({use})",
                f"pip install 'replan[{extra}]'",
            )


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def _configuration(config: Path | None) -> tuple[Loaded | None, Finding]:
    from replan.config import load_settings
    from replan.errors import ConfigError

    try:
        loaded = load_settings(config, env=os.environ, cwd=Path.cwd())
    except ConfigError as error:
        return None, Finding(
            "config", "problem", str(error), "correct it; `replan config check` tells when it is right"
        )
    files = ", ".join(str(file) for file in loaded.files) or "no config.toml here, defaults are used"
    if loaded.warnings:
        return loaded, Finding(
            "config", "note", f"{files}; {counted(len(loaded.warnings), 'warning')}", "replan config check"
        )
    return loaded, Finding("config", "ok", files)


def _model(settings: Settings) -> Finding:
    from replan.cli.terminal.opening import built_in_model
    from replan.cli.terminal.words import size
    from replan.llm.local.weights import DEFAULT, KNOWN, find

    if settings.llm.endpoint:
        return _endpoint(settings.llm.endpoint, settings.llm.api_key, settings.llm.default_model)
    name = built_in_model(settings, None, None)
    if name is None:
        needed = importlib.util.find_spec("pydantic_ai") is not None
        named = settings.llm.default_model
        if needed:
            return Finding("model", "ok", f"{named} (not asked: it may cost money)")
        return Finding("model", "problem", f"{named} needs pydantic_ai", "pip install 'replan[models]'")
    file = find(name)
    runs = importlib.util.find_spec("xllamacpp") is not None
    if file is None:
        pull = "replan model pull" + ("" if name == DEFAULT else f" {name}")
        if not runs:
            pull = f"pip install 'replan[local]' && {pull}"
        return Finding(
            "model",
            "problem",
            f"no model is configured, and the weights of the built-in one ({size(KNOWN[name].size)}) are not here",
            f"{pull}, or set [llm] endpoint and default_model in config.toml",
        )
    if not runs:
        return Finding(
            "model", "problem", f"weights in {file}, but nothing to run them", "pip install 'replan[local]'"
        )
    return Finding("model", "ok", f"built in: {file}")


def _endpoint(endpoint: str, api_key: str | None, model: str | None) -> Finding:
    """Whether the endpoint answers, in the way in which a task asks it, and knows the model."""
    import asyncio

    from replan.core.secrets import url_without_secrets
    from replan.llm import address
    from replan.llm.faults import EndpointError
    from replan.llm.opening import require_library

    require_library()
    shown = url_without_secrets(address.base_url(endpoint))
    try:
        listed = asyncio.run(address.served_by(endpoint, api_key))
    except EndpointError as error:
        if error.status is None:
            return Finding("model", "problem", str(error), "start it, or correct [llm] endpoint")
        if error.refused:
            return Finding("model", "problem", str(error), "set APP_LLM_API_KEY")
        if model:
            return Finding("model", "note", f"{shown} answers, but lists no models (HTTP {error.status})")
        return Finding("model", "problem", str(error), "set [llm] default_model")
    known = ", ".join(listed[:8])
    if model and address.name_at(model) not in listed:
        return Finding(
            "model",
            "problem",
            f"{shown} does not know {model!r}",
            f"set [llm] default_model; it has: {known}",
        )
    if not model and len(listed) > 1:
        return Finding(
            "model",
            "problem",
            f"{shown} serves {len(listed)} models",
            f"set [llm] default_model to one of {known}",
        )
    return Finding("model", "ok", f"{shown}, model {model or listed[0]}")


def _tools(settings: Settings, specs: Sequence[str]) -> Iterator[Finding]:
    """A finding for each source, and one for each that cannot be used."""
    import asyncio

    from replan.errors import ReplanError
    from replan.wiring import open_tools

    async def listed() -> tuple[dict[str, int], list[str]]:
        catalog = open_tools(list(specs), settings)
        try:
            await catalog.open()
            counts = Counter(spec.source for spec in catalog.specs())
            return dict(counts), [str(problem) for problem in catalog.problems]
        finally:
            await catalog.aclose()

    try:
        counts, problems = asyncio.run(listed())
    except ReplanError as error:
        yield Finding("tools", "problem", str(error), "correct [tools] sources, or --tools")
        return
    if not counts and not problems:
        yield Finding(
            "tools", "note", "no source is configured", '[tools] sources = ["tools.py"], or --tools tools.py'
        )
    for source, count in counts.items():
        yield Finding(f"tools {source}", "ok", counted(count, "tool"))
    for problem in problems:
        yield Finding("tools", "problem", problem)


def _store(settings: Settings, db: str | None) -> Finding:
    import asyncio

    from replan.cli.terminal.opening import open_replan, without_tools
    from replan.core.secrets import text_without_secrets

    async def count() -> int:
        async with open_replan(without_tools(settings), db=db) as replan:
            return len(await replan.tasks(limit=1_000))

    tasks = asyncio.run(count())
    where = db or settings.database_service.connection_string
    place = f" in {text_without_secrets(where)}" if where else ""
    return Finding(
        "store", "ok", f"can be written{place}; {tasks if tasks < 1_000 else '1000 or more'} tasks"
    )


def _workers(settings: Settings, db: str | None) -> list[Finding]:
    """Who takes tasks, and what waits for whom."""
    import asyncio

    from replan.cli.terminal.opening import open_replan, without_tools

    async def look() -> tuple[list[Worker], list[Line]]:
        async with open_replan(without_tools(settings), db=db) as replan:
            return await replan.workers(), await replan.waiting_lines()

    workers, lines = asyncio.run(look())
    living = [worker for worker in workers if worker.alive]
    places = sum(worker.concurrency for worker in living)
    busy = sum(worker.tasks for worker in living)
    found = [
        Finding(
            "workers", "ok", f"{counted(len(living), 'worker')}, {busy} of {counted(places, 'place')} taken"
        )
        if living
        else Finding("workers", "problem", "no worker is running", "replan worker")
    ]
    found += [
        Finding(
            "workers",
            "note",
            f"{worker.name} was last seen {secs(worker.seen_secs_ago)} ago; others take over what it had",
            "start it again, or look why it cannot reach the database",
        )
        for worker in workers
        if not worker.alive
    ]
    for line in lines:
        tasks = f"{counted(line.tasks, 'task')} of the queue {line.queue!r}"
        if line.why and living:
            found.append(
                Finding("queue", "problem", f"{tasks}: {line.why}", "replan worker with what is missing")
            )
        else:
            found.append(Finding("queue", "ok", f"{tasks}: waiting for a free worker"))
    return found
