"""The steps of one pass that wait without a place: for a person's yes, or for what their own calls wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from replan.core.events import TaskWaiting
from replan.core.state.task import StepState
from replan.core.types import StepId
from replan.run.calls.attempts import Attempts
from replan.run.calls.build import Call
from replan.run.calls.slots import Host, Places
from replan.run.human_input.approvals import Parking
from replan.run.session.context import Run
from replan.run.waits.parked import HOLD_SECS, Waits


class Standstill:
    """Who waits. `due` is told of each step that can go on, once, whatever of it was waited for."""

    __slots__ = ("_due", "_parking", "_waits")

    def __init__(
        self,
        run: Run,
        attempts: Attempts,
        places: Places,
        urgency: Mapping[StepId, float],
        host: Host,
        due: Callable[[StepId], None],
    ) -> None:
        self._due = due
        self._parking = Parking(run, places, host, self._due_again)
        self._waits = Waits(run, attempts, places, urgency, host, self._due_again)

    def park(self, step: StepState, calls: Sequence[Call]) -> None:
        """Let a step wait. Raises as `Attempts.begin` does."""
        if asked := [call for call in calls if not call.waits]:
            self._parking.park(step.step.step_id, asked)
        if waits := [call for call in calls if call.waits]:
            self._waits.park(step, waits)

    def look(self) -> None:
        """Somebody has spoken."""
        self._parking.look()
        self._waits.look()

    def soon(self) -> bool:
        """True if something is due before the task could be let go of."""
        return self._waits.soon() or self._parking.soon(HOLD_SECS)

    def close(self) -> None:
        """Look at nothing any more."""
        self._waits.close()
        self._parking.close()

    def _due_again(self, step_id: StepId) -> None:
        self._parking.forget(step_id)
        self._waits.forget(step_id)
        self._due(step_id)

    def waiting(self) -> TaskWaiting | None:
        """What the task waits for, as it is recorded; None if for nothing."""
        asked, pending = self._parking.requests(), self._waits.pending()
        if not asked and pending is None:
            return None
        names = ", ".join(dict.fromkeys(f"{one.tool_id!r} in {one.step_id}" for one in asked))
        ends = [one.expires for one in asked if one.expires is not None]
        ends += [pending.until] if pending is not None and pending.until is not None else []
        reasons = [f"a person has to agree to the call of {names}"] if asked else []
        return TaskWaiting(
            reason="; ".join([*reasons, *([pending.reason] if pending is not None else [])]),
            approvals=tuple(one.approval_id for one in asked),
            until=min(ends, default=None),
            callbacks=pending.callbacks if pending is not None else (),
            questions=pending.questions if pending is not None else (),
        )
