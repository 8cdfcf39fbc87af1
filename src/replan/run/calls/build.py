"""From a step to a call that can be made: references filled in, parameters checked, key made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replan.core.again.changes import behind_a_change
from replan.core.again.consent import asked_of, too_often
from replan.core.again.counterparts import done_before, unsaid
from replan.core.again.like_calls import is_meant_again, occurrence, planned_twin, twin
from replan.core.again.sessions import serving
from replan.core.again.undone import standing, undone_since
from replan.core.again.unique import had_already, same_effects
from replan.core.calls.seals import seal
from replan.core.ids import base_of, call_key
from replan.core.recovery.in_part import marks_what_is_done, of_this_alone
from replan.core.state.recovery import Recovery
from replan.core.state.task import ONLY, CallState, Slot, State, StepState
from replan.core.types import Fault, JsonObject, Step, ToolSpec
from replan.ports import Gate, Tools
from replan.run.calls.outline import Meant, meaning
from replan.run.calls.rights import Right
from replan.run.calls.shown import shown
from replan.run.calls.twins import mended_before, restated, stand_in, unmeant
from replan.run.session.outputs import Loaded


class CannotCall(Exception):
    """There is no call to make, and the fault says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class LeftInDoubt(CannotCall):
    """No step of the plan has the call, which was begun under an earlier one: whoever states it goes on with it."""

    def __init__(self, fault: Fault, call: CallState) -> None:
        super().__init__(fault)
        self.call = call


class NeedsApproval(Exception):
    """The call waits for a person's yes."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.key)
        self.call = call


@dataclass(slots=True)
class Call:
    """A call that is ready to be made."""

    step: Step
    slot: Slot
    tool: ToolSpec
    parameters: JsonObject
    key: str
    attempt: int = 1
    retries: int = 0
    """Faults that were let pass, not tries: one that a crash cut off was no fault of the call."""
    doubt: str = ""
    """Why an earlier attempt is in doubt, where one is: the same call was made again with its key."""
    until: float | None = None
    """When the step's own time is over, for this call and its retries together (in the event loop's time)."""
    right: Right | None = None
    """What the tool's limits give the call, while it may be made and is not; None: so far nothing."""
    about: str = ""
    """The key of the call that a verifier looks for."""
    answer: Any = None
    """What it has given, where it is such a look."""
    short: bool = False
    """Its parameters hold no secret and nothing large: they go into the log as they are."""
    why_asked: str = ""
    """Why it needs a person's yes, where it is not the settings that ask for it."""
    item: Any = None
    """What it is made for, where it is one of a `for_each` and a person is asked about it."""
    large: bool = False
    """Its parameters are gone through beside the event loop."""
    plain: bool = False
    """It is the only call of its step, and neither of them has been begun before."""
    waits: bool = False
    """It is a wait, which may begin or goes on."""

    def granted(self, gate: Gate) -> None:
        """The limits of its tool have let it in."""
        self.holding().granted(gate)

    def holding(self) -> Right:
        """`with`: what its tool's limits give it inside goes back at the end, unless it is used or handed on."""
        if self.right is None:
            self.right = Right()
        return self.right

    def labels(self) -> dict[str, Any]:
        """What every event of this call says."""
        return {
            "call_key": self.key,
            "step_id": self.step.step_id,
            "action_id": self.slot.action_id,
            "index": self.slot.item,
            "attempt": self.attempt,
            "tool_id": self.tool.id,
        }


def constant(step: StepState, state: State, tools: Tools) -> Call | None:
    """The only call of a step, where the check of its plan has left nothing to find out about it and nobody has made it.

    `prepare` would come to the same. None: ask it.
    """
    found = state.constant_call(step)
    if found is None or step.calls or state.recovery is not None:
        return None
    tool = found.tool
    if (tool.counterparts and step.meant > 1) or (tool.unique_by and tool.effect == "once"):
        return None
    if tools.resolve(step.step.tool) is not tool:
        return None
    base = state.constant_base(found)
    key = call_key(base, 1)
    if asked_of(state, step, ONLY, tool, key) is not None or state.latest_try(key) is not None:
        return None
    if not state.ledger.is_first(base, key, (step.step.step_id, ONLY)):
        return None
    return Call(step.step, ONLY, tool, found.parameters, key, short=found.short)


def prepare(
    step: StepState,
    slot: Slot,
    state: State,
    tools: Tools,
    loaded: Loaded,
    *,
    one_of_several: Callable[[str, JsonObject], bool],
    has_rest: Callable[[], bool],
    item: Any = None,
    meant: Meant | None = None,
) -> Call:
    """The call that a place in the plan makes. `CannotCall` if it cannot be made, `NeedsApproval` if not yet.

    `meant`: its meaning, if it is known already. `one_of_several`: whether the plan marks like calls beside this one with `repeat`.
    `has_rest`: whether the step's list goes on with what was not done before.
    """
    found, names = meant or meaning(step, slot, state, tools, loaded, item)
    tool, parameters = found.tool, found.parameters
    if found.fault is not None or tool is None:
        raise CannotCall(found.fault or Fault(category="tool_error", kind="unknown_tool", message=found.name))
    base = state.known_base(names, tool, parameters)
    place = (step.step.step_id, slot)
    changed = step.healing is not None and slot in step.healing.overrides
    had = None if changed or tool.effect == "reads" else stand_in(step, slot, {base, *names})
    if had is not None:
        return _answered(step, slot, tools.resolve(had.tool_id) or tool, had)
    number = state.ledger.first_done(base) if tool.asks_model else None  # wherever it stands in the plan
    if number is None:
        number = occurrence(
            state,
            base,
            place,
            lambda: one_of_several(base, parameters),
            repeatable=tool.effect == "repeatable",
        )
    if step.meant > 1 and tool.effect == "once":
        number = standing(step, slot, base, number, state, tools.resolve)
    if not changed and state.recovery is not None:
        number = serving(step, slot, base, number, tool, state, tools.resolve)
    other = twin(state, base, number, place) if tool.effect == "once" else None
    if other is None and tool.effect == "once":
        other = planned_twin(state, {base, *names}, place)
    if other is not None and state.reusable(call_key(base, number), tool, step.step) is not None:
        other = None  # it is answered with what was done, and nothing comes twice
    if other is not None and (text := unmeant(step, slot, tool, other, state, tools)):
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    answered = state.reusable(call_key(base, number), tool, step.step) is not None
    text = ""
    if tool.effect == "once" and state.plans > 1:
        if not state.ledger.is_done(base):
            text = mended_before(step, slot, tool, {base, *names}, state)
            text = text or ("" if changed else restated(step, slot, tool, parameters, state))
        elif step.meant > 1 and not changed:
            text = (
                marks_what_is_done(step, slot, tool.id, base, state)
                or behind_a_change(step, slot, tool, parameters, base, state, has_rest, is_answered=answered)
                or undone_since(step, slot, base, state, tools.resolve)
            )
    if text:
        text = of_this_alone(step.step, slot) + text
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    large = meant is not None
    call = Call(step.step, slot, tool, parameters, call_key(base, number), large=large)
    others = (
        [] if answered else done_before(state, step, slot, tool, parameters, found.planned, tools.resolve)
    )
    if text := unsaid(step.step, slot, tool, others, changed=changed):
        text = of_this_alone(step.step, slot) + text
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    alike = [base_of(one.call.key) for one in others]
    if step.born > 1 and not answered:
        alike += same_effects(state, tool, seen(call, state))
    under_way = state.latest_try(call.key)
    if (
        under_way is not None
        and under_way.status in ("running", "retrying")
        and (under_way.step_id, under_way.slot) != (step.step.step_id, slot)
        and state.holds(under_way)  # else it was cut off, or waited, as a plan left it out
    ):
        text = f"this very call is being made by step {under_way.step_id!r}, and is not made twice"
        raise CannotCall(Fault(category="unknown", kind="duplicate", message=text))
    if (doubt := state.in_doubt.get(call.key)) is not None and doubt is not step.calls.get(slot):
        text = f"this very call was made before, and nobody knows whether it took effect: {doubt.fault.message if doubt.fault else 'cut off'}"
        unsure = Fault(category="unknown", kind="in_doubt", message=text, happened="unknown")
        if (
            slot not in step.calls
            and state.left_with(doubt) is not None
            and not is_meant_again(step.step, slot.action_id)
        ):
            raise LeftInDoubt(unsure, doubt)
        raise CannotCall(unsure)
    if (fault := has_had(call, step, state)) is not None:
        raise CannotCall(fault)
    if text := too_often(state, step, tool, call.key, alike, tools.resolve):
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    asked = asked_of(state, step, slot, tool, call.key, alike)
    if asked is not None and not answered:
        call.why_asked, call.item = asked.why, item
        _check_approved(call, state)
    return call


def _answered(step: StepState, slot: Slot, tool: ToolSpec, had: CallState) -> Call:
    """The call that was made in place of the planned one, which is answered with what it gave. `CannotCall` if nobody knows that."""
    if had.status == "unknown":
        text = (
            f"it was made as {had.tool_id} in other words before, and nobody knows whether that took effect"
        )
        raise CannotCall(Fault(category="unknown", kind="in_doubt", message=text, happened="unknown"))
    return Call(step.step, slot, tool, had.parameters, had.key)


def has_had(call: Call, step: StepState, state: State) -> Fault | None:
    """Why the call is not made, where another one has had its effect, as its tool says which are one; None if it may be made."""
    if not call.tool.unique_by or state.reusable(call.key, call.tool, call.step) is not None:
        return None
    return had_already(step, call.slot, call.tool, seen(call, state), call.key, state)


def seen(call: Call, state: State) -> JsonObject:
    """Its parameters as the log would have them."""
    seen: JsonObject = state.secrets.masked(
        shown(call.tool, call.parameters, state.policy.max_output_bytes, state.secrets)
    )
    return seen


def _check_approved(call: Call, state: State) -> None:
    """Raise unless a person has agreed to just this call: what runs is what was shown."""
    known = state.recovery
    if known is not None:
        said = known.approvals.get(call.key)
        if said is not None and not said.approved:
            why = f": {said.reason}" if said.reason else ""
            text = f"a person has rejected the call of {call.tool.id!r}{why}"
            raise CannotCall(Fault(category="unknown", kind="rejected", message=text))
        if said is not None and said.parameters is None:
            return
        if _is_as_edited(call, known, state.seal_key):
            return
        if known.lapsed.get((call.step.step_id, call.slot)) == call.key:
            text = f"nobody has answered in time whether {call.tool.id!r} may be called; that is no refusal"
            raise CannotCall(Fault(category="external_error", kind="expired", message=text))
        if said is not None:
            text = f"a person has agreed to this call of {call.tool.id!r} only with other parameters"
            raise CannotCall(Fault(category="parameter_error", kind="rejected", message=text))
    if not state.policy.interactive:
        text = f"the call of {call.tool.id!r} needs a person's approval, and nobody can be asked here"
        raise CannotCall(Fault(category="external_error", kind="approval", message=text))
    raise NeedsApproval(call)


def _is_as_edited(call: Call, known: Recovery, seal_key: bytes) -> bool:
    """True if the call is made with just what a person has put in place of what was asked, hidden values included."""
    edited = known.edited.get((call.step.step_id, call.slot))
    if edited is None or call.tool.id != edited.tool_id or call.parameters.keys() != edited.parameters.keys():
        return False
    return all(
        seal(seal_key, call.tool.id, name, value) == edited.seals[name]
        if name in edited.seals
        else edited.parameters[name] == value
        for name, value in call.parameters.items()
    )


def own_copy(value: Any) -> Any:
    """The value for somebody who may change it: what is recorded stays as it is."""
    if isinstance(value, dict):
        return {
            name: own_copy(item) if isinstance(item, dict | list) else item for name, item in value.items()
        }
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    return value
