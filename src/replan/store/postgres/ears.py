"""Who waits for news of which task, in whatever loop, and the words that go between processes.

Three ways lead here: what this store writes itself; notifications of other processes; and a slow look at the rows,
since a notification can be lost with the connection that it was to come by.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from replan.store.postgres.line import Row


class Position(NamedTuple):
    """How far a task's log goes, and the last event in it that a person wrote."""

    last: int = 0
    signal: int = 0


class Ear:
    """Somebody who is told, by a call in his own loop; `signals`: of what people write, and of nothing else."""

    __slots__ = ("_among", "loop", "signals", "task_id", "tell")

    def __init__(self, task_id: str, tell: Callable[[], None], signals: bool, among: Ears) -> None:
        self.task_id = task_id
        self.tell = tell
        self.signals = signals
        self.loop = asyncio.get_running_loop()
        self._among = among

    def close(self) -> None:
        self._among.forget(self)

    def hear(self) -> None:
        if self in self._among.of(self.task_id):  # it may have been closed since
            self.tell()


class Ears:
    """All of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_task: dict[str, tuple[Ear, ...]] = {}
        self._seen: dict[str, Position] = {}

    def listen(self, task_id: str, tell: Callable[[], None], *, signals: bool) -> Ear:
        ear = Ear(task_id, tell, signals, self)
        with self._lock:
            self._by_task[task_id] = (*self._by_task.get(task_id, ()), ear)
        return ear

    def forget(self, ear: Ear) -> None:
        with self._lock:
            left = tuple(other for other in self._by_task.get(ear.task_id, ()) if other is not ear)
            if left:
                self._by_task[ear.task_id] = left
            else:
                self._by_task.pop(ear.task_id, None)
                self._seen.pop(ear.task_id, None)

    def of(self, task_id: str) -> tuple[Ear, ...]:
        return self._by_task.get(task_id, ())

    def tasks(self) -> list[str]:
        """Tasks that somebody waits for news of."""
        return list(self._by_task)

    def changed(self, task_id: str, *, signal: bool) -> None:
        """Something was written to the task; `signal`: by people."""
        for ear in self.of(task_id):
            if signal or not ear.signals:
                _call(ear)

    def all(self, only: Collection[str] | None = None) -> None:
        """Anything may have been written."""
        for task_id in self.tasks() if only is None else only:
            self.changed(task_id, signal=True)

    def look(self, rows: Mapping[str, Row], asked: Collection[str] = ()) -> None:
        """What the tasks' rows say now: tell those for whom they say more than at the last look, or whose task is gone: of those that were
        `asked` for it has none."""
        for task_id in asked:
            if task_id not in rows:
                self.changed(task_id, signal=False)
        for task_id, row in rows.items():
            now = Position(*row)
            before = self._seen.get(task_id)
            if now == before:
                continue
            if self.of(task_id):
                self._seen[task_id] = now
                self.changed(task_id, signal=before is None or now.signal != before.signal)


def _call(ear: Ear) -> None:
    try:
        ear.loop.call_soon_threadsafe(ear.hear)
    except RuntimeError:  # its loop is closed
        ear.close()
