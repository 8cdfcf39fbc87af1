"""The log of a command that runs for days, on stderr and in a file: each line with the time, the host, the process, and the task that it is about."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from pathlib import Path

from replan.cli.terminal.terminal import secrets
from replan.cli.terminal.words import printable
from replan.config import Settings
from replan.engine.local import task_within
from replan.files import rotating
from replan.tools.functions.context import CURRENT

log = logging.getLogger("replan.worker")
_LEVELS = {"trace": logging.DEBUG, "warn": logging.WARNING}


FILE_BYTES, FILES = 10_000_000, 5
"""A file is put aside when it has so much, and so many of those are kept."""


def begin(settings: Settings, level: str | None = None, form: str | None = None) -> None:
    """What Replan logs from here on goes to stderr and to a file, as `[logging]` says; `level` and `form` in place of what is there.

    What libraries and tools log as a warning, or worse, goes there too, where a tool's file has set up nothing of its own.
    """
    section = settings.logging
    level, form = level or section.level, form or section.format
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)] if section.console else []
    if section.file:
        path = Path(section.file_path)
        handlers.append(rotating(path, "[logging] file_path", most_bytes=FILE_BYTES, kept=FILES))
    for handler in handlers:
        handler.setFormatter(_Json() if form == "json" else _Text())
        handler.addFilter(_with_task)
    ours = logging.getLogger("replan")
    ours.handlers[:] = handlers
    ours.setLevel(_LEVELS.get(level, level.upper()))
    ours.propagate = False
    others = logging.getLogger()
    if not others.handlers:
        others.handlers[:] = handlers
        others.setLevel(logging.WARNING)


def _with_task(record: logging.LogRecord) -> bool:
    """Say of which task it is, and of which step, where that is known."""
    told = dict(getattr(record, "told", {}))
    if (task_id := task_within()) is not None:
        told.setdefault("task_id", task_id)
    if (call := CURRENT.get()) is not None and call.step_id:
        told.setdefault("step_id", call.step_id)
    record.told = told
    return True


class _Text(logging.Formatter):
    """`2026-11-29T18:50:00.123Z host replan[1234] INFO took t1`."""

    def format(self, record: logging.LogRecord) -> str:
        said = _said(record)
        told = getattr(record, "told", {})
        about = [
            told[name] for name in ("task_id", "step_id") if name in told and str(told[name]) not in said
        ]
        where = f"{_when(record)} {platform.node()} replan[{os.getpid()}] {record.levelname}"
        where += f" [{' '.join(map(str, about))}]" if about else ""
        return "\n".join(f"{where} {line}" for line in printable(said).splitlines())


class _Json(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _when(record), "level": record.levelname.lower(), "host": platform.node(), "pid": os.getpid(),
            "logger": record.name, "message": _said(record), **getattr(record, "told", {}),
        }  # fmt: skip
        return json.dumps(secrets().masked(fields), ensure_ascii=False, default=str)


def _when(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"


def _said(record: logging.LogRecord) -> str:
    told = record.getMessage()
    if record.exc_info:
        told += "\n" + logging.Formatter().formatException(record.exc_info)
    return secrets().hide(told)
