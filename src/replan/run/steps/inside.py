"""Which calls of a step are due: those that use what others of it give come after these, item by item."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from replan.core.calls.inside import needs_inside
from replan.core.calls.site import Slot
from replan.core.state.task import StepState
from replan.core.types import ActionId, Artifact, Fault, Step
from replan.run.calls.outcomes import Outcomes


class Inside:
    """The order of the calls of one step; they are named by their places among all of them."""

    def __init__(self, step: Step, slots: Sequence[Slot], calls: Outcomes) -> None:
        self._calls = calls
        self._slots = slots
        self._needs = needs_inside(step)
        self._due: deque[int] = deque(range(len(slots)))
        self._places: dict[Slot, int] = {}
        self._missing: dict[int, int] = {}
        """How many of its needs have not come out yet."""
        self._users: dict[int, list[int]] = {}
        """By the call that they need."""
        self.running = 0
        """The tasks that make calls."""
        self._news = asyncio.Event()
        if self._needs:
            calls.ended = []
            self._put_in_order()

    def _put_in_order(self) -> None:
        self._places = {slot: at for at, slot in enumerate(self._slots)}
        for at in range(len(self._slots)):
            if needs := self._of(at):
                self._missing[at] = len(needs)
                for _, need in needs:
                    self._users.setdefault(need, []).append(at)
        self._due = deque(at for at in self._due if at not in self._missing)

    def due(self) -> Iterator[int]:
        """The calls that can be made by now, each once. One of which a need has failed has its outcome with that."""
        while True:
            self._hear()
            if not self._due:
                return
            yield self._due.popleft()

    def is_made_by(self, task: asyncio.Task[None]) -> None:
        self.running += 1
        task.add_done_callback(self._done)

    async def news(self) -> None:
        """Wait until there may be something to do: another call is due, or nobody makes one any more."""
        await self._news.wait()
        self._news.clear()

    def needed_artifacts(self, step: StepState, at: int) -> list[Artifact]:
        """What has to be loaded before this call can be prepared, beside what other steps have given."""
        if not self._needs:
            return []
        outputs = (
            made.output for _, need in self._of(at) if (made := step.calls.get(self._slots[need])) is not None
        )
        return [one.artifact for one in outputs if one is not None and one.artifact is not None]

    def _hear(self) -> None:
        """Those whose needs have come out are due, or have come out with that."""
        ended = self._calls.ended
        while ended:
            need = ended.pop()
            failed = isinstance(self._calls.of[need], Fault)
            for at in self._users.get(need, ()):
                if at not in self._missing:
                    continue
                self._missing[at] -= 1
                if failed:
                    del self._missing[at]
                    self._calls.end_without(at, str(self._slots[need].action_id))
                elif not self._missing[at]:
                    del self._missing[at]
                    self._due.append(at)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.running -= 1
        if self._needs or not self.running:
            self._news.set()

    def _of(self, at: int) -> list[tuple[ActionId, int]]:
        slot = self._slots[at]
        return [(name, self._places[Slot(name, slot.item)]) for name in self._needs.get(slot.action_id, ())]
