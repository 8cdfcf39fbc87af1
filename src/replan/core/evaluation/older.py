"""Effects that a later plan has only restated, where it has changed something first that they may be made of.

"Write 2, copy it" after "write 1, copy it": the copy is the same call, has been made, and is not made again to make up for what
failed. But it was made of what was there then.
"""

from __future__ import annotations

from typing import NamedTuple

from replan.core.calls.things import things_of
from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import StepId


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
    found = []
    for step in list(state.steps.values()) if steps is None else steps:
        reused = [call for call in step.calls.values() if call.reused and call.effect == "once"]
        changes = _changes_before(state, step.step.step_id) if reused else []
        if changes and (one := _first(state, reused, changes)) is not None:
            found.append(one)
    return found


def _changes_before(state: State, step_id: StepId) -> list[CallState]:
    """The effects that the steps have had which this one waits for."""
    needs = state.graph().needs
    seen: dict[StepId, None] = {}
    stack = list(needs.get(step_id, ()))
    while stack:
        name = stack.pop()
        if name not in seen:
            seen[name] = None
            stack.extend(needs.get(name, ()))
    calls = (call for name in seen if name in state.steps for call in state.steps[name].calls.values())
    return [
        call for call in calls if not call.reused and call.effect != "reads" and call.status == "succeeded"
    ]


def _first(state: State, reused: list[CallState], changes: list[CallState]) -> Older | None:
    order = state.ledger.order()
    by_name: dict[str, CallState] = {}
    """The latest change by what it has named; `above`: by the folders above that."""
    above: dict[str, CallState] = {}

    def begun(call: CallState) -> int:
        """When this was set first: setting it so again changes nothing."""
        return order.get(base_of(call.key), (-1, -1))[0]

    oldest = min((order[base][1] for call in reused if (base := base_of(call.key)) in order), default=None)
    if oldest is None:
        return None
    changes = sorted((one for one in changes if begun(one) > oldest), key=begun, reverse=True)[:_MOST]
    for change in changes:
        things = things_of(change.parameters)
        for name in things.named:
            by_name.setdefault(name, change)
        for name in things.within:
            above.setdefault(name, change)
    other: Older | None = None
    for call in reused[:_MOST]:
        made = order.get(base_of(call.key))
        if made is None or not changes or begun(changes[0]) < made[1]:
            continue
        mine = things_of(call.parameters)
        met = [at[name] for name in mine.named for at in (by_name, above) if name in at]
        met += [by_name[name] for name in mine.within if name in by_name]
        if met and begun(change := max(met, key=begun)) > made[1]:
            return Older(call, change, meets=True)
        other = other or Older(call, changes[0], meets=False)
    return other


_MOST = 200
"""Calls that are looked at, of each kind."""
