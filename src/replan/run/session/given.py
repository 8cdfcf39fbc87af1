"""What the callers of this process have given that no log may have: secret metadata, whole requests.

A secret of the metadata comes from the caller's own hand, or from a source that the log may name (`env:VAR`,
`file:PATH`), so that another process finds it there again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from replan.core.events import AnyEvent, Record, TaskSubmitted
from replan.core.secrets import lost, with_places
from replan.core.state.task import TaskName
from replan.core.types import JsonObject
from replan.errors import InputError, SecretsMissing
from replan.files import read_bounded

_FORMS = "write NAME=env:VARIABLE or NAME=file:PATH"
_MOST_BYTES = 1_000_000
_MOST_SAID_TO = 10_000
"""Tasks of which it is kept what was said here with a secret: who says it may never drive them, and hears of no end."""


def read_secret(name: str, source: Any) -> str:
    """The value that a source of a secret stands for; `InputError` says what is wrong with it, never what it holds."""
    if isinstance(source, SecretStr):
        return source.get_secret_value()
    found = read_source(str(source), f"secret {name}")
    if found is None:
        raise InputError(
            f"secret {name}: a secret is not written out where histories and logs would keep it: {_FORMS}"
        )
    return found


def read_source(source: str, what: str) -> str | None:
    """What `env:VARIABLE` or `file:PATH` stands for; None for any other text. `what` names it in an `InputError`."""
    kind, colon, where = source.partition(":")
    if not colon or kind not in ("env", "file") or not where:
        return None
    if kind == "env":
        value = os.environ.get(where)
        if not value:
            raise InputError(
                f"{what}: the environment has no {where}; set it, give another source, or leave it out if none is needed"
            )
        return value
    try:
        text = read_bounded(Path(where).expanduser(), _MOST_BYTES).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"{what}: the file {where} is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{what}: the file {where} cannot be read: {error.strerror or error}") from None
    if not text:
        raise InputError(f"{what}: the file {where} is empty")
    return text


def not_had(missing: Mapping[str, str]) -> str:
    """Which secrets of a task are not here. `missing`: see `Given.lacking`."""
    said = [f"was begun with {', '.join(missing)} as secret metadata, which no log keeps"]
    return "; ".join([*said, *(why for why in missing.values() if why)])


def wanted_again(missing: Mapping[str, str]) -> str:
    """What a task waits for whose secrets are not here, and how they are given."""
    options = " ".join(f"--secret {name}=env:VARIABLE" for name in missing)
    return (
        f"{not_had(missing)}: give it again, by `replan tasks resume` with {options} (or file:PATH), by `secrets` when it is resumed, or by "
        "submitting the same request once more"
    )


def source_of(source: Any) -> str:
    """What the log may say of a source: nothing of a value that was given itself."""
    return "" if isinstance(source, SecretStr) else str(source)


class Given:
    """By task, as long as this process may drive it."""

    def __init__(self) -> None:
        self._whole: dict[TaskName, TaskSubmitted] = {}
        self._again: dict[TaskName, dict[str, Any]] = {}
        """Secrets that were given for a task of an earlier process."""
        self._instead: dict[TaskName, JsonObject] = {}
        self._said: dict[TaskName, dict[int, AnyEvent]] = {}
        """What was said here to a task with a secret in it, by its number in the log."""
        self._saying: dict[str, dict[asyncio.Future[None], None]] = {}
        """What is being written, by task."""

    def keep(self, task: TaskName, event: TaskSubmitted) -> None:
        """Keep the request of a task; one that is there already stays: it may be at work."""
        self._whole.setdefault(task, event)

    def holds(self, task_id: str) -> bool:
        """True if anything of a task of this id is kept here."""
        return any(task.task_id == task_id for task in (*self._whole, *self._again))

    def forget(self, task: TaskName) -> None:
        self._whole.pop(task, None)
        self._again.pop(task, None)
        self._instead.pop(task, None)
        self._said.pop(task, None)

    @contextlib.contextmanager
    def saying(self, task_id: str) -> Iterator[None]:
        """`with`: something is written that is kept afterwards. Whoever has read it waits for that (`all_said`)."""
        done = asyncio.get_running_loop().create_future()
        under_way = self._saying.setdefault(task_id, {})
        under_way[done] = None
        try:
            yield
        finally:
            done.set_result(None)
            del under_way[done]
            if not under_way and self._saying.get(task_id) is under_way:
                del self._saying[task_id]

    async def all_said(self, task_id: str) -> None:
        """What has been read of a task's log so far is kept, where it was said here with a secret."""
        if under_way := self._saying.get(task_id):
            await asyncio.wait(list(under_way))

    def keep_said(self, task: TaskName, seq: int, event: AnyEvent) -> None:
        self._said.setdefault(task, {})[seq] = event
        if len(self._said) > _MOST_SAID_TO:
            del self._said[next(iter(self._said))]

    def said(self, task: TaskName, seq: int) -> AnyEvent | None:
        """This event of the log as it was said here, where that was with a secret."""
        return self._said[task].get(seq) if task in self._said else None

    def as_said(self, task: TaskName, records: list[Record]) -> list[Record]:
        """The records with these."""
        known = self._said.get(task)
        return (
            records
            if known is None
            else [one._replace(event=known[one.seq]) if one.seq in known else one for one in records]
        )

    def pass_on(self, task: TaskName, fork: TaskName) -> None:
        """What was given for a task is there for its fork, too."""
        if (whole := self._whole.get(task)) is not None:
            self._whole[fork] = whole
        if (again := self._again.get(task)) is not None:
            self._again[fork] = dict(again)

    def learn(self, task: TaskName, late: Mapping[str, Any]) -> None:
        """Metadata that turned out to be secret, by place: the log has them no more."""
        if (whole := self._whole.get(task)) is not None:
            secrets = {**dict.fromkeys(late, ""), **whole.secrets}
            self._whole[task] = whole.model_copy(update={"secrets": secrets})
        else:
            self._again.setdefault(task, {}).update(late)

    def lacking(self, task: TaskName, event: TaskSubmitted) -> dict[str, str]:
        """The secrets of the request that cannot be had here, each with why; empty: what had no source, and was not given here."""
        found: dict[str, str] = {}
        if task in self._whole:
            return found
        known = self._again.get(task, {})
        for name, source in event.secrets.items():
            if name in known:
                continue
            try:
                if not source or read_source(source, f"secret {name}") is None:
                    found[name] = ""
            except InputError as error:
                found[name] = str(error)
        return found

    def give_again(self, task: TaskName, event: TaskSubmitted, secrets: Mapping[str, Any]) -> None:
        """Take secrets for a task that is resumed; `InputError` if one is no secret of it, `SecretsMissing` if one still cannot be had."""
        if task in self._whole:
            return
        known = self._again.setdefault(task, {})
        for name, source in secrets.items():
            if name not in event.secrets:
                has = ", ".join(event.secrets) or "none"
                raise InputError(
                    f"secret {name}: the task has no secret metadata of that name; it has: {has}"
                )
            known[name] = read_secret(name, source)
        if missing := self.lacking(task, event):
            raise SecretsMissing(f"task {task.task_id!r} {wanted_again(missing)}", tuple(missing))
        for name, source in event.secrets.items():
            if name not in known:
                known[name] = read_secret(name, source)

    def give_instead(self, task: TaskName, instead: JsonObject) -> None:
        """What a task is driven with in place of what its log says: for its log."""
        self._instead[task] = instead

    def instead(self, task: TaskName) -> JsonObject:
        """The same, not taken yet."""
        return self._instead.get(task, {})

    def taken_instead(self, task: TaskName) -> JsonObject:
        """The same, once."""
        return self._instead.pop(task, {})

    def restored(self, task: TaskName, event: TaskSubmitted) -> TaskSubmitted:
        """The request as it was made, as far as it can be had here; what cannot is marked as lost."""
        if (whole := self._whole.get(task)) is not None:
            return whole
        if not event.masked:
            return event
        event = lost(event)
        if again := self._again.get(task):
            return event.model_copy(update={"metadata": with_places(event.metadata, again)})
        return event
