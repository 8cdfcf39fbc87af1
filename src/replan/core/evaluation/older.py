"""Effects that stand for an older one behind a change that they may be made of.

A plan is asked to say what it means (`core.again.changes`); this is what may be left: items of a list that goes on with the rest, and
steps that were due again with what they had.
"""

from __future__ import annotations

from typing import NamedTuple

from replan.core.again.changes import changes_before
from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State


class Older(NamedTuple):
    """A call whose output was reused behind an effect that was had since it was made."""

    call: CallState
    change: CallState
    meets: bool
    """Both are about one thing, as far as their parameters say it."""

    @property
    def told(self) -> str:
        """What it is, in words."""
        what = f"step {self.change.step_id!r} ({self.change.tool_id})"
        where = f", {words}" if (words := self.call.slot.words()) else ""
        return (
            f"step {self.call.step_id!r}{where} ({self.call.tool_id}) was not made again: what it stands for was made before {what}, "
            "after which the plan has it"
        )


def older_than_a_change(state: State, steps: list[StepState] | None = None) -> list[Older]:
    """Of each step (all of the plan, unless told) the first such call, rather one that meets what was changed."""
    found: list[Older] = []
    if not state.any_reused:
        return found
    for step in list(state.steps.values()) if steps is None else steps:
        reused = [call for call in step.calls.values() if call.reused and call.effect == "once"]
        if reused and (one := _first(state, step, reused)) is not None:
            found.append(one)
    return found


def _first(state: State, step: StepState, reused: list[CallState]) -> Older | None:
    changes, order = changes_before(state, step.step.step_id), state.ledger.order()
    other: Older | None = None
    for call in reused[:_MOST] if changes.found else ():
        made = order.get(base_of(call.key))
        if made is None or (change := changes.since(made[-1])) is None:
            continue
        if (meeting := changes.of_one_thing(made[-1], call.parameters)) is not None:
            return Older(call, meeting, meets=True)
        other = other or Older(call, change, meets=False)
    return other


_MOST = 200
"""Calls that are looked at of one step."""
