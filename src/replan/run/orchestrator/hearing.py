"""What people say meanwhile, taken in."""

from __future__ import annotations

from replan.core.state.fold import apply
from replan.core.types import CallKey
from replan.run.human_input import wishes
from replan.run.human_input.signals import People
from replan.run.rounds import drift
from replan.run.session.context import Run
from replan.run.session.said import clear_forks, taken_in


class Hearing:
    """What one drive knows and is told."""

    __slots__ = (
        "again",
        "asked_apart",
        "beside",
        "cut_off",
        "deadline",
        "drift",
        "failed",
        "late",
        "looked_up",
        "people",
        "run",
        "why",
    )

    def __init__(self, run: Run, people: People) -> None:
        self.run = run
        self.people = people
        self.deadline: float | None = None
        run.hear = self._take_in
        self.drift: drift.Drift | None = None
        """What is otherwise than when the plan was made."""
        self.late = False
        """Its time is up: nothing is begun any more."""
        self.looked_up: set[CallKey] = set()
        """Calls in doubt that were looked for in the logs of the family."""
        self.asked_apart: set[CallKey] = set()
        """Calls in doubt that no step of the plan has, and that code has tried to settle."""
        self.cut_off = False
        """What ran was cut off for a pause."""
        self.again = False
        """It was cut off, or has not begun, and is looked at anew."""
        self.why = ""
        """It goes on one call at a time, in words."""
        self.beside = False
        """It goes on beside another task that may end the process, too."""
        self.failed: Exception | None = None
        """What went wrong beside the loop, as people's words were taken in."""

    async def _take_in(self) -> None:
        """Take in what people have written."""
        run, in_clear = self.run, False
        records = await run.parts.store.read(run.task_id, run.heard, signals_only=True)
        await run.parts.given.all_said(run.task_id)
        await run.end_told()  # what was written after all came before it, or was refused
        for record in records:
            if record.seq <= run.heard:  # somebody else has just read it
                continue
            run.heard, run.unread = record.seq, False
            event, known_only_here = taken_in(run, record)
            in_clear |= known_only_here
            apply(run.state, event, record.ts)
        if in_clear:
            await self.clear()
            await run.end_told()
        pause = run.state.pause
        self.cut_off |= pause is not None and pause.now and run.state.waiting is None
        if run.state.cancel is not None or self.cut_off:
            run.stop()
        wishes.take_hints(run)
        run.people_heard()

    async def clear(self) -> None:
        """Take out of the log what people have said with a secret that only this process knows."""
        await self.run.redact({})
        await clear_forks(self.run)

    def _fail(self, error: Exception) -> None:
        self.failed = error
        self.run.stop()
