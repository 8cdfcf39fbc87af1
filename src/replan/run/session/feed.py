"""What this process knows of the tasks that it drives, and the log does not tell, or not yet.

News for watchers: tokens of a model, progress of a tool, an end. And whether the tasks are getting on.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from replan.core.events import AnyEvent, Record
from replan.core.secrets import KnownSecrets

BACKLOG = 1_000


class Feed:
    """Who listens to which task. A listener that does not keep up loses the oldest news, never the task's time."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[asyncio.Queue[Record]]] = {}
        self._ends: dict[str, list[asyncio.Event]] = {}

    def heard(self, task_id: str) -> bool:
        return task_id in self._listeners

    def tell(self, task_id: str, event: AnyEvent, ts: float, round: int) -> None:
        """Pass an event on; it has no place in the log, so its seq is 0."""
        for queue in self._listeners.get(task_id, ()):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(Record(0, task_id, ts, round, event))

    @contextlib.contextmanager
    def listen(self, task_id: str) -> Iterator[asyncio.Queue[Record]]:
        queue: asyncio.Queue[Record] = asyncio.Queue(BACKLOG)
        self._listeners.setdefault(task_id, []).append(queue)
        try:
            yield queue
        finally:
            self._listeners[task_id].remove(queue)
            if not self._listeners[task_id]:
                del self._listeners[task_id]

    def ended(self, task_id: str) -> None:
        """The task's end was recorded here just now, and is on its way to the log."""
        for event in self._ends.get(task_id, ()):
            event.set()

    @contextlib.contextmanager
    def end_of(self, task_id: str) -> Iterator[asyncio.Event]:
        """Set once the task's end is a fact: nothing that this process does changes it any more."""
        event = asyncio.Event()
        self._ends.setdefault(task_id, []).append(event)
        try:
            yield event
        finally:
            self._ends[task_id].remove(event)
            if not self._ends[task_id]:
                del self._ends[task_id]


class Standing(NamedTuple):
    """How long a task has recorded nothing (0 while it gets on by itself: it asks a model, or time is all that it waits for),
    whether a tool of it runs, and how long it may take in all.
    """

    quiet_secs: float
    in_tool: bool
    limit_secs: float = math.inf


class UnderWay:
    """The tasks that are driven here just now; by task, how to ask about it."""

    def __init__(self) -> None:
        self._asked: dict[str, Callable[[], Standing]] = {}
        self._secrets: dict[str, KnownSecrets] = {}

    def begins(self, task_id: str, standing: Callable[[], Standing], secrets: KnownSecrets) -> None:
        """From now on the task is driven here, until it `ends`. `secrets`: what its driver knows of them."""
        self._asked[task_id] = standing
        self._secrets[task_id] = secrets

    def secrets_of(self, task_id: str) -> KnownSecrets | None:
        """What the driver knows to be secret, where the task is driven here."""
        return self._secrets.get(task_id)

    def ends(self, task_id: str) -> None:
        self._asked.pop(task_id, None)
        self._secrets.pop(task_id, None)

    def still_secs(self, task_ids: Collection[str]) -> float:
        """For how long none of them has got on while some tool of theirs runs; 0 if one may get on by itself."""
        if not task_ids or any(task_id not in self._asked for task_id in task_ids):
            return 0.0
        found = [self._asked[task_id]() for task_id in task_ids]
        return min(one.quiet_secs for one in found) if any(one.in_tool for one in found) else 0.0

    def shortest_limit(self, task_ids: Collection[str]) -> float:
        """The shortest time limit of these tasks, as far as they are driven here."""
        known = (self._asked[task_id]() for task_id in task_ids if task_id in self._asked)
        return min((one.limit_secs for one in known), default=math.inf)
