"""The first file of an export: what the others are."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from replan.core.ids import task_id_problem
from replan.core.types import Frozen
from replan.errors import InputError
from replan.ports import Content, StoredTask
from replan.store.transfer.framing import Frames

MANIFEST, END = "manifest.json", "end.json"
FORMAT = "replan-tasks"
VERSION = 1
"""Of the file's form; one that cannot be read as this one is has another."""
MOST_TIME = 253_370_764_800.0
"""Unix seconds at the beginning of the year 9999: later is no time that a calendar has."""
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Key = Annotated[str, Field(pattern=r"^[0-9a-f.]{1,100}(\.like)?$")]
"""Of a call, or what a family knows all calls by that nothing tells apart."""
_Size = Annotated[int, Field(ge=0, le=2**40)]
LOG = re.compile(r"tasks/([1-9][0-9]{0,5})/log-([1-9][0-9]{0,5})\.jsonl")
ARTIFACT = re.compile(r"artifacts/([0-9a-f]{64})")


class MovedArtifact(Frozen):
    artifact_id: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,100}$")]
    digest: _Digest
    size: _Size


class MovedTask(Frozen):
    """One task of an export."""

    task_id: str
    request: Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
    created: Annotated[float, Field(allow_inf_nan=False, ge=-MOST_TIME / 5, le=MOST_TIME)]
    status: str
    last_seq: Annotated[int, Field(ge=1, le=2**40)]
    artifacts: tuple[MovedArtifact, ...] = ()
    parent: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a fork: the task before it in the file whose events, up to `shared`, its log begins with."""
    shared: Annotated[int, Field(ge=0, le=2**40, exclude_if=lambda value: not value)] = 0
    taken: tuple[tuple[_Key, str | None, _Size], ...] = Field(default=(), exclude_if=lambda value: not value)
    """Of the first of a family of forks: the calls that were taken, by which of the tasks in the file, and how often."""
    sealed_by: str | None = Field(
        default=None, pattern="^[0-9a-f]{16}$", exclude_if=lambda value: value is None
    )
    """The database whose key names its calls, where there are secrets in them."""

    def stored(self, sealed_by: str | None = None) -> StoredTask:
        return StoredTask(
            self.task_id,
            self.request,
            self.created,
            tuple((one.artifact_id, Content(one.digest, one.size)) for one in self.artifacts),
            self.parent,
            self.shared,
            self.taken,
            sealed_by,
        )


def seal_mark(key: bytes) -> str:
    """What a database is known by whose key of seals that is."""
    return hashlib.sha256(b"replan: whose key of seals\0" + key).hexdigest()[:16]


class Manifest(Frozen):
    format: Literal["replan-tasks"] = "replan-tasks"
    version: int = VERSION
    replan: str = ""
    """The release that has written it."""
    tasks: tuple[MovedTask, ...]


class End(Frozen):
    """The last file."""

    files: int
    """How many stand before it."""
    sha256: _Digest
    """Of all bytes before it."""


def read_manifest(data: bytes) -> Manifest:
    """`InputError` says what is wrong with it."""
    try:
        made = Manifest.model_validate_json(data)
    except (ValidationError, RecursionError) as error:
        raise InputError(f"its {MANIFEST} cannot be read: {in_short(error)}") from None
    if made.version != VERSION:
        raise InputError(
            f"it has version {made.version} of the form; this release ({VERSION}) cannot read it: upgrade Replan"
        )
    seen: set[str] = set()
    for task in made.tasks:
        if wrong := task_id_problem(task.task_id):
            raise InputError(f"its {MANIFEST}: {wrong}")
        if task.task_id in seen:
            raise InputError(f"its {MANIFEST} has task {task.task_id!r} twice")
        seen.add(task.task_id)
        if task.parent is not None and (
            task.parent not in seen or task.parent == task.task_id or not task.shared
        ):
            raise InputError(f"its {MANIFEST} lacks the task that {task.task_id!r} is a fork of, before it")
        names = [one.artifact_id for one in task.artifacts]
        if len(set(names)) < len(names):
            raise InputError(f"its {MANIFEST} has an artifact of task {task.task_id!r} twice")
    if not made.tasks:
        raise InputError(f"its {MANIFEST} names no task")
    return made


def read_end(data: bytes) -> End:
    try:
        return End.model_validate_json(data)
    except (ValidationError, RecursionError) as error:
        raise InputError(f"its {END} cannot be read: {in_short(error)}") from None


def in_short(error: Exception) -> str:
    """The first thing that is wrong."""
    if not isinstance(error, ValidationError):
        return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    return f"{place}: {found['msg']}" if place else str(found["msg"])


def ending(files: int, digest: str) -> tuple[bytes, bytes]:
    """What comes last, behind so many files of this digest: with it the export is whole."""
    frames = Frames()
    end = End(files=files, sha256=digest).model_dump_json(indent=1).encode() + b"\n"
    return frames.file(END, end), frames.end()
