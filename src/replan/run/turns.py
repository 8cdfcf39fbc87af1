"""Whose turn it is among the tasks of a process of which something may end it: driven one after the other, so that it shows which does.

Whoever waits for its turn has not begun: the time is none of its own, and that the process ends meanwhile is not held against it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

TURN_SECS = 0.2
"""So much later, for each turn that it had, a task may begin the next: those that had fewer come first, also where they ask later."""
_MOST_TURNS = 5
LEAST_SECS = 0.05
"""Between two looks."""


class Turn:
    """One task's, asked for or had."""

    __slots__ = ("_turns", "beside", "come", "had", "task_id", "told")

    def __init__(self, turns: Turns, task_id: str, had: int) -> None:
        self._turns = turns
        self.task_id = task_id
        self.had = had
        """So many it had before."""
        self.come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it has come."""
        self.beside = False
        """It goes on beside another's."""
        self.told: Callable[[], None] | None = None
        """Called where another's begins beside it."""

    def over(self) -> None:
        """Something of the task has come to its end, or it is driven no more: the next may go on."""
        self._turns.give(self)


class Turns:
    """One at a time, those first that had the fewest, and of these whoever came first. A task that dies with each turn of its own is
    behind all that are not to blame, which get on and need none.

    Whoever does not wait for it goes on beside all others, and nobody's turn comes meanwhile. Where those that go on have long done
    nothing but wait for their tools, the next does beside them: such a tool may wait for it. It does at once where each of them waits for
    what another task comes to: that may be the next, or wait for one that stands in line in another process. Then it shows of none of them
    whether it ends the process.
    """

    __slots__ = ("_having", "_timer", "_waiting", "_waits_for_others", "lend_after", "still")

    def __init__(self) -> None:
        self._having: list[Turn] = []
        self._waiting: list[Turn] = []
        self._waits_for_others: Counter[str] = Counter()
        """The tasks that do nothing themselves until another one has come further, and how often each does."""
        self._timer: asyncio.TimerHandle | None = None
        self.still: Callable[[Collection[str]], float] = lambda _: 0.0
        """For how many seconds none of these tasks has done anything but wait for its tools."""
        self.lend_after: Callable[[Collection[str]], float] = lambda _: 0.0
        """After so many seconds of that the next goes on beside these; 0: never."""

    def ask(self, task_id: str, *, had: int = 0, waits: bool = True) -> Turn:
        """Stand in line; it comes at once where nobody else has it and it is the first, or for one that does not wait."""
        turn = Turn(self, task_id, had)
        if not waits or not (self._having or had):
            self._begin(turn)
            return turn
        self._waiting.append(turn)
        if not self._having:
            asyncio.get_running_loop().call_later(TURN_SECS * min(had, _MOST_TURNS), self._next)
        self._lend()
        self._look_out()
        return turn

    def give(self, turn: Turn) -> None:
        """It is over, or is waited for no more."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn in self._having:
            self._having.remove(turn)
            self._next()
            self._lend()

    @contextmanager
    def waiting_for_another(self, task_id: str) -> Iterator[None]:
        """`with`: inside, the task waits for what another one comes to."""
        self._waits_for_others[task_id] += 1
        try:
            self._lend()
            yield
        finally:
            self._waits_for_others[task_id] -= 1
            if not self._waits_for_others[task_id]:
                del self._waits_for_others[task_id]

    def _lend(self) -> None:
        """The next goes on where each of those whose turn it is waits for another one."""
        if self._having and all(name in self._waits_for_others for name in self._names):
            self._take_next()

    def _next(self) -> None:
        if not self._having:
            self._take_next()

    def _take_next(self) -> None:
        if self._waiting:
            turn = min(self._waiting, key=lambda one: one.had)  # the first of these
            self._waiting.remove(turn)
            self._begin(turn)

    def _begin(self, turn: Turn) -> None:
        turn.beside = bool(self._having)
        for other in self._having:
            other.beside = True
            if other.told is not None:
                other.told()
        self._having.append(turn)
        turn.come.set_result(None)
        self._look_out()

    @property
    def _names(self) -> list[str]:
        return [turn.task_id for turn in self._having]

    @property
    def _due(self) -> float:
        return self.lend_after(self._names) * 2.0 ** (len(self._having) - 1)

    def _look_out(self) -> None:
        if self._having and self._waiting and self._timer is None:
            self._look_in(self._due)

    def _look_in(self, secs: float) -> None:
        if secs > 0:
            self._timer = asyncio.get_running_loop().call_later(max(secs, LEAST_SECS), self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        due = self._due
        still = self.still(self._names)
        if 0 < due <= still:
            self._take_next()
        elif self._having:
            self._look_in(due - still)
