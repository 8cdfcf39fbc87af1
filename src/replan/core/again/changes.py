"""Done `once` calls that a later plan puts behind an effect which came after them.

"Write 2, copy it" after "write 1, copy it": the copy is the same call and has been made, but of what was there then. So a plan has
to say what it means: what was done, or the effect once more. It is neither answered with the older one nor made again unsaid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Slot
from replan.core.calls.things import things_of, words_of
from replan.core.ids import base_of
from replan.core.state.ledger import Ledger
from replan.core.state.made_instead import told_instead, told_mended
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import JsonObject, StepId, ToolId, ToolSpec

_MOST = 200
"""Effects before one step whose things are looked at, the latest first."""


@dataclass(slots=True)
class Changes:
    """The effects that the steps have had which one step waits for, each with its place among all effects of the task."""

    ledger: Ledger
    found: list[tuple[int, CallState]]
    """The latest first."""
    goes_on: bool | None = None
    """The step's list goes on with a rest that was not done before; None: not looked at."""
    _about: dict[str, list[tuple[int, CallState]]] = field(default_factory=dict)
    """By what they have named; `_within`: by the folders above that."""
    _within: dict[str, list[tuple[int, CallState]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.found[:_MOST]:
            things = things_of(one[1].parameters)
            for name in things.named | words_of(one[1].parameters):
                self._about.setdefault(name, []).append(one)
            for name in things.within:
                self._within.setdefault(name, []).append(one)

    def since(self, made: int) -> CallState | None:
        """The latest of them that has changed something after the effect of this place."""
        return self._latest(self.found, made)

    def of_one_thing(self, made: int, parameters: JsonObject) -> CallState | None:
        """The same of those that are about something which these parameters are about too."""
        if self.since(made) is None:
            return None
        mine = things_of(parameters)
        met = [
            at[name]
            for name in mine.named | words_of(parameters)
            for at in (self._about, self._within)
            if name in at
        ]
        met += [self._about[name] for name in mine.within if name in self._about]
        return next(filter(None, (self._latest(one, made) for one in met)), None)

    def _latest(self, among: Sequence[tuple[int, CallState]], made: int) -> CallState | None:
        for at, call in among:
            if at <= made:
                return None
            if call.effect != "repeatable" or self.ledger.was_otherwise(base_of(call.key), made):
                return call
        return None


def changes_before(state: State, step_id: StepId) -> Changes:
    """What the steps have done that this one waits for."""
    order = state.ledger.order()
    steps = (state.steps.get(name) for name in state.graph().upstream(step_id))
    calls = (call for step in steps if step is not None for call in step.calls.values() if _is_new(call))
    found = [(at[-1], call) for call in calls if (at := order.get(base_of(call.key))) is not None]
    return Changes(state.ledger, sorted(found, key=lambda one: one[0], reverse=True))


def _is_new(call: CallState) -> bool:
    return not call.reused and call.effect != "reads" and call.status == "succeeded"


def behind_a_change(
    step: StepState,
    slot: Slot,
    tool: ToolSpec,
    parameters: JsonObject,
    base: str,
    state: State,
    has_rest: Callable[[], bool],
    *,
    is_answered: bool,
) -> str:
    """Why this call is neither made nor answered with what a like one gave; empty if it may be.

    A list that `has_rest` goes on with it: an item that is done is asked about only where the change is about the same thing. What
    goes on from a first part is one plan with all before it: a call of that is no other's answer, changed or not.
    """
    if step.former is not None or is_meant_again(step.step, slot.action_id):
        return ""  # what a step has had itself before it was due again stays its own
    made = state.ledger.order().get(base)
    if made is None:
        return ""
    if step.behind is None or step.behind[0] != state.plans:
        step.behind = state.plans, changes_before(state, step.step.step_id)
    changes: Changes = step.behind[1]
    change = changes.since(made[-1])
    if slot.item is not None and (change is not None or step.meant in state.continued):
        if changes.goes_on is None:
            changes.goes_on = has_rest()
        if change is not None and changes.goes_on:
            change = changes.of_one_thing(made[-1], parameters)
    if change is None:
        alone = slot.item is None or not changes.goes_on
        maker = maker_of(state, tool.id, base)
        if alone and step.meant in state.continued and maker not in state.steps and is_answered:
            return made_before(f"step {step.step.step_id!r}", tool.id, by_whom(state, tool.id, base))
        return ""
    return told_behind(
        step.step.step_id, tool.id, maker_of(state, tool.id, base), change.step_id, change.tool_id
    )


def made_before(where: str, tool_id: ToolId, by: str) -> str:
    """Asks what is meant by a call that was made before, `by` a step."""
    return (
        f"{where} makes the call of {tool_id!r} that {by} has made, which has an effect; leave it out if that is the effect that is "
        "wanted, or set `repeat: true` on it, with its `repeat_reason`, if it is wanted once more"
    )


def by_whom(state: State, tool_id: ToolId, base: str) -> str:
    """Who has made this call, in words."""
    made = state.latest_call(tool_id, base)
    if made is None:
        return "an earlier plan"
    words = f"step {made.step_id!r}" + (f", {place}" if (place := made.slot.words()) else "")
    return words if made.step_id in state.steps else f"{words} of an earlier plan"


def failed_before(state: State, tool: ToolSpec, bases: Collection[str], before: int) -> str:
    """Asks what is meant by a call of one of these contents, which failed in a plan before this version, where its step or a later plan
    has made another one since; empty if none has."""
    if (found := state.mended(bases, before)) is not None:
        step, call = found
        return told_mended(step, call, bases, stands=step.step.step_id in state.steps)
    instead = state.made_instead(tool, bases, before)
    return told_instead(*instead) if instead is not None else ""


def maker_of(state: State, tool_id: ToolId, base: str) -> StepId:
    made = state.latest_call(tool_id, base)
    return made.step_id if made is not None else ""


def told_behind(name: StepId, tool_id: ToolId, maker: StepId, change: StepId, by: ToolId) -> str:
    return (
        f"step {name!r} makes the call of {tool_id!r} that {f'step {maker!r}' if maker else 'an earlier plan'} has made, and waits for an "
        f"effect that came after that, step {change!r} ({by}): leave it out if what was done counts (refer to it as it is), or do "
        "not let it wait for that; set `repeat: true` with its `repeat_reason` only if the task wants it once more after that"
    )
