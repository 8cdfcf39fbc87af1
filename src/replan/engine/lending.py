"""A place more where all who hold one do nothing but wait for their tools: one of these may wait for a task in the queue.

That is seen where the tool itself waits (`LocalEngine.awaited`), but not through a worker that does its job, or in a thread of
its own. So that no such task waits for ever for a place that is held for its sake, it is driven without one after some
seconds in which nothing has happened, the next one after twice as long, and so on: what is lent stays little. Where the
end of such a task has set others going at once, it was waited for, and the next one comes sooner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from replan.core.words import in_digits

Still: TypeAlias = Callable[[Collection[str]], float]
"""For how many seconds none of these tasks has done anything but wait for its tools."""
log = logging.getLogger("replan")


class Places(Protocol):
    """What is asked of an engine."""

    @property
    def places(self) -> int: ...
    def going(self) -> list[str]: ...
    def may_be_waited_for(self) -> str | None: ...
    def let_through(self, task_id: str) -> None: ...


class Lending:
    """Looks at the tasks of an engine as long as one waits for a place."""

    def __init__(self, still: Still, after: Callable[[Collection[str]], float], engine: Places) -> None:
        """`after`: seconds, by the tasks that are under way; 0: nothing is lent, and it is only said that nothing goes on."""
        self._still = still
        self._after = after
        self._engine = engine
        self._lent: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self._has_ended = False
        """A task with a lent place has ended just now: it is seen next whether that has helped."""
        self._sooner = 1.0

    def look_out(self) -> None:
        """A task has begun to wait for a place."""
        if self._timer is None:
            self._look_in(self._due)

    def ended(self, task_id: str) -> None:
        """A task is driven no more."""
        if task_id in self._lent:
            self._lent.remove(task_id)
            if self._timer is not None:
                self._timer.cancel()
                self._has_ended = True
                self._look_in(NOTICE_SECS)

    @property
    def _due(self) -> float:
        """After how many seconds the next place is lent."""
        return (self._lends_after or TELL_SECS) * self._sooner * 2.0 ** len(self._lent)

    @property
    def _lends_after(self) -> float:
        return self._after(self._engine.going())

    def _look_in(self, secs: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(secs, LEAST_SECS), self._look)

    def _look(self) -> None:
        self._timer = None
        going = self._engine.going()
        still = self._still(going)
        if self._has_ended:
            self._has_ended = False
            helped = still < NOTICE_SECS + LATE_SECS  # whoever got on did so just then
            self._sooner = max(self._sooner / 2, SOONEST) if helped else min(self._sooner * 2, 1.0)
            self._look_in(self._due)
            return
        task_id = self._engine.may_be_waited_for()
        if task_id is None:  # whoever comes next looks out again
            return
        due = self._due
        if still >= due:
            self._lend(task_id, going, still)
        elif not still:
            self._told = False
        self._look_in(due - still if still < due else self._due)

    def _lend(self, task_id: str, going: list[str], still: float) -> None:
        lends = self._lends_after > 0
        if self._told and not lends:
            return
        held = (
            f"all {self._engine.places} places of max_concurrent_tasks are held by tasks whose tools have not come back for "
            f"{in_digits(round(still, 1))} s ({', '.join(going[:NAMED])}{', …' if len(going) > NAMED else ''}), and task {task_id} waits for one"
        )
        if not lends:
            self._told = True
            log.warning("%s: if such a tool waits for it, none of them goes on before its time limit", held)
            return
        log.warning("%s: it is driven without a place, since such a tool may wait for it", held)
        self._lent.add(task_id)
        self._engine.let_through(task_id)


TELL_SECS = 5.0
"""After so long it is said that nothing goes on, where nothing is lent."""
NOTICE_SECS = 0.2
"""So soon whoever waited for a task gets on once it has ended."""
LATE_SECS = 0.1
"""So much later than it is due the look may come."""
SOONEST = 1 / 32
LEAST_SECS = 0.05
"""Between two looks."""
NAMED = 5
"""Tasks that are named in a line of the log."""
