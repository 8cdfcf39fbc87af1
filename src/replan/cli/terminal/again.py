"""Commands that are printed for copying: with the options that this command was given, so that they run as they are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TypeVar

V = TypeVar("V", str | None, Path | None)

_given: dict[str, str] = {}
"""What this process's command was given of `--db`, `--server`, `--config`, `--api-key` and `--record`; a process runs one command."""
_OF_RESUMING = ("--api-key",)
_OF_NO_OTHER = ("--record",)


def carried_db(value: str | None) -> str | None:
    """Take note of `--db`."""
    return _carried("--db", value)


def carried_server(value: str | None) -> str | None:
    """Take note of `--server`."""
    return _carried("--server", value)


def carried_config(value: Path | None) -> Path | None:
    """Take note of `--config`."""
    return _carried("--config", value)


def carried_key(value: str | None) -> str | None:
    """Take note of `--api-key` where it names a place: a key itself is printed nowhere."""
    _carried("--api-key", value if value is not None and value.startswith(("env:", "file:")) else None)
    return value


def carried_record(value: Path | None) -> Path | None:
    """Take note of `--record`."""
    return _carried("--record", value)


def _carried(flag: str, value: V) -> V:
    if value is None:
        _given.pop(flag, None)
    else:
        _given[flag] = str(value)
    return value


def _without_password(value: str) -> str:
    """An address without the password that stands in it: PostgreSQL finds one in the environment, or in a file of the user's."""
    if "://" not in value:
        return value
    from replan.core.secrets import text_without_secrets

    return text_without_secrets(_PASSWORD.sub(r"\1@", value))


_PASSWORD = re.compile(r"(://[^/@:?]*):[^/@?]*@")


def again(*words: str) -> str:
    """`replan` with these words, and with the `--db`, `--server` and `--config` of the present command; to resume, with its key too."""
    left_out = _OF_NO_OTHER if words[:2] == ("tasks", "resume") else (*_OF_RESUMING, *_OF_NO_OTHER)
    given = [(flag, _without_password(value)) for flag, value in _given.items() if flag not in left_out]
    return shlex.join(["replan", *words, *(part for pair in given for part in pair)])


def to_go_on(task_id: str) -> str:
    """How a task that waits is gone on with, in words to copy; where it is recorded, so that the recording goes on too."""
    if "--record" in _given:
        return f"the same command once more, with --task-id {shlex.quote(task_id)} (without --record nothing more is recorded)"
    return again("tasks", "resume", task_id)
