"""The lines on stderr of a command that runs for days: each with the time, the host, the process, and the task that it is about."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time

from replan.cli.terminal.terminal import secrets
from replan.cli.terminal.words import printable

log = logging.getLogger("replan.worker")
_LEVELS = {"trace": logging.DEBUG, "warn": logging.WARNING}


def begin(level: str, form: str) -> None:
    """What Replan logs from here on goes to stderr, from this level on, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger("replan")
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS.get(level, level.upper()))
    root.propagate = False  # a tool's file may set up handlers of its own


class _Text(logging.Formatter):
    """`2026-11-29T18:50:00.123Z host replan[1234] INFO took t1`."""

    def format(self, record: logging.LogRecord) -> str:
        where = f"{_when(record)} {platform.node()} replan[{os.getpid()}] {record.levelname}"
        return "\n".join(f"{where} {line}" for line in printable(_said(record)).splitlines())


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
