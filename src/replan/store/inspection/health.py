"""What a look at a database finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from replan.ports import ConsumerState

MOST = 1_000
"""So many tasks of a kind are looked at; there may be more."""
GRACE_SECS = 120.0
"""So long workers have for what they find by themselves."""
JUST_NOW_SECS = 10.0
"""A task that was stored so lately may be about to be driven."""
_MADE = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
_DROPPED = re.compile(r"^DROP TABLE (?:IF EXISTS )?(\w+)", re.MULTILINE)


class Form(NamedTuple):
    """How far the database was brought."""

    at: int
    """0: nothing of Replan's is in it."""
    newest: int
    """That this Replan knows."""
    needed: int
    """A Replan that does not know this cannot use it."""
    missing: Sequence[str]
    """Tables that it should have."""


class StillTask(NamedTuple):
    """A task that should be driven, and is not."""

    task_id: str
    status: str
    kind: Literal["interrupted", "answered", "lost", "given back", "given away"]
    """Whoever drove it is gone; a person has answered, and nobody goes on; no worker was told of it, or the one that was is
    gone; a worker gave it back; a file of an export has it, and it was not removed."""
    secs: float
    """Since its log was last written to."""
    why: str = ""


class Queued(NamedTuple):
    """The workers' queue."""

    oldest_secs: float | None
    """So long the oldest wake-up has waited that could be taken."""


@dataclass
class Health:
    """One database. What was not looked at, or cannot be told, is None."""

    shown: str
    fault: str | None = None
    """Why it cannot be used, or seen."""
    there: bool = True
    unwritable: str | None = None
    """Why it cannot be written."""
    to_write: str = ""
    """What to do about that."""
    form: Form | None = None
    tasks: int | None = None
    """At most `MOST`."""
    bytes: int | None = None
    free_bytes: int | None = None
    log_bytes: int | None = None
    """Of SQLite's own log, which is a part of the database."""
    broken: list[str] = field(default_factory=list)
    """What is damaged in it."""
    unchecked: str | None = None
    """Why it is not known whether it is damaged."""
    clock_ahead_secs: float | None = None
    """Of this machine, to the database's."""
    connections: tuple[int, int] | None = None
    """That are open on the server, and that it allows."""
    oldest_transaction_secs: float | None = None
    still: list[StillTask] = field(default_factory=list)
    queue: Queued | None = None
    consumers: list[ConsumerState] | None = None
    unseen: list[str] = field(default_factory=list)
    """What went wrong with parts of the look."""


def tables_of(steps: Iterable[tuple[int, str]], at: int) -> set[str]:
    """The tables that a database has which these migrations have brought so far."""
    found: set[str] = set()
    for number, script in steps:
        if number <= at:
            found |= set(_MADE.findall(script))
            found -= set(_DROPPED.findall(script))
    return found
