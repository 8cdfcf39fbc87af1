"""What is installed here, and how it is configured."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import counted

if TYPE_CHECKING:
    from replan.config import Loaded, Settings


def python() -> Finding:
    from importlib.metadata import version

    found = f"replan {version('replan')}, Python {platform.python_version()} on {platform.system()} ({platform.machine()})"
    return Finding("python", "ok", found)


def extras() -> Iterator[Finding]:
    for extra, modules, use in (
        ("models", ("pydantic_ai",), "endpoints and providers"),
        ("local", ("xllamacpp",), "the built-in model"),
        ("mcp", ("mcp",), "tools of MCP servers"),
        ("openapi", ("httpx2",), "tools of OpenAPI documents"),
        ("remote", ("httpx2", "grpc", "google.protobuf", "starlette", "uvicorn"), "tool services"),
        ("kit", ("httpx2", "duckdb"), "kit:http and kit:data"),
        ("postgres", ("psycopg",), "tasks in a PostgreSQL database"),
        ("discovery", ("httpx2", "dns"), "services in Consul and DNS"),
        ("serve", ("fastapi", "grpc", "prometheus_client", "structlog"), "the service"),
        ("workers", ("psycopg", "procrastinate"), "tasks that workers take"),
        ("kafka", ("confluent_kafka",), "audit records to Kafka"),
        ("a2a", ("a2a",), "tasks for other agents over A2A"),
        ("ag-ui", ("ag_ui",), "runs of AG-UI"),
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


def kinds(settings: Settings) -> Iterator[Finding]:
    """Scenes and workflows, where any are configured."""
    if not (settings.scenes.paths or settings.scenes.workflows):
        return
    from replan.wiring import open_kinds

    known = open_kinds(settings).look(silent=True)
    own = sum(not one.built_in for one in known.workflows.values())
    found = f"{counted(len(known.scenes), 'scene')}, {counted(own, 'workflow')}"
    if known.problems:
        todo = "`replan scenes check` and `replan workflows check` tell when they are right"
        yield Finding("scenes", "problem", "; ".join(known.problems[:5]), todo)
    else:
        yield Finding("scenes", "ok", found)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def configuration(config: Path | None) -> tuple[Loaded | None, Finding]:
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
