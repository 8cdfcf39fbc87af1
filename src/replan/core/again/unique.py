"""Whether an effect was had already, by what its tool says tells its effects apart (`unique_by`)."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.again.counterparts import Done, told_done
from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Place, Slot
from replan.core.calls.telling import one_effect, unique_text, unique_words
from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import CallKey, Fault, JsonObject, StepId, ToolSpec


def had_already(
    step: StepState, slot: Slot, tool: ToolSpec, seen: JsonObject, key: CallKey, state: State
) -> Fault | None:
    """Why a call is not made whose effect another one has, in this plan or an earlier one, with other parameters beside those that tell;
    None if it may be made. `seen`: its parameters as the log would have them.

    A like call, with all its parameters, is told by its key, but among the items of one list. Of two that are begun at once the first one counts.
    """
    if not tool.unique_by or tool.effect != "once":
        return None
    place = (step.step.step_id, slot)
    again = _is_meant_again(step, slot, tool, seen)
    failed: list[CallState] = []
    for call in state.made_of(tool, seen):
        if call.status in ("running", "retrying") and state.latest_try(call.key) is not call:
            continue  # it was tried once more since
        is_own = (call.step_id, call.slot) == place
        if call.key == key and is_own and call.status in ("running", "retrying"):
            return None  # this one is begun; what comes after it waits for it
        if call.status == "failed" and not (is_own and call.plan >= step.meant):
            failed.append(call)
        if call.status == "failed" or call.reused or call.key == key:
            continue
        if base_of(call.key) == base_of(key) and not _of_one_list((call.step_id, call.slot), place):
            continue
        if call.status == "unknown":
            return _in_doubt(f"{_had(call, tool)}, and nobody knows whether it took effect")
        if again:
            continue
        if call.status == "succeeded":
            text = told_unique(call.step_id, tool)
            return Fault(category="decomposition_error", kind="repeated", message=text)
        if not is_own:
            text = f"{_maker(call.step_id)} is making a call of {tool.id!r} with the same {unique_words(tool)}, and it is not made twice"
            return Fault(category="unknown", kind="duplicate", message=text)
    done = _in_place(failed, state, tool, step.meant)
    if done is None or (again and done.sure):
        return None
    text = told_done(tool, done)
    if done.call.status == "unknown":
        return _in_doubt(text)
    return Fault(category="decomposition_error", kind="repeated", message=text)


def _in_doubt(text: str) -> Fault:
    return Fault(category="unknown", kind="in_doubt", message=text, happened="unknown")


def planned_already(tool: ToolSpec, seen: JsonObject, state: State) -> str:
    """The same of a call of a plan that has not begun, by what is known of its parameters; empty if it may be made."""
    made = state.made_of(tool, seen)
    for call in made:
        if call.status in ("succeeded", "unknown") and not call.reused:
            return told_unique(call.step_id, tool)
    done = _in_place([call for call in made if call.status == "failed"], state, tool, state.plans + 1)
    return "" if done is None else told_done(tool, done)


def _in_place(failed: Sequence[CallState], state: State, tool: ToolSpec, before: int) -> Done | None:
    """What was made in place of one of these calls, in its step or by a plan before this version."""
    for call in reversed(failed):
        effect = state.effect_for(call, before, tool)
        if effect is not None:
            return Done(effect, call)
    return None


def _of_one_list(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1].action_id == other[1].action_id and one[1].item != other[1].item


def _is_meant_again(step: StepState, slot: Slot, tool: ToolSpec, seen: JsonObject) -> bool:
    """True if the plan marks it; where recovery has changed the call, only if that is still the effect which was marked."""
    if not is_meant_again(step.step, slot.action_id):
        return False
    healing = step.healing
    if healing is None or slot not in healing.overrides:
        return True
    meant = [one for one in healing.failures(slot) if one.tool_id == tool.id]
    return any(unique_text(tool, one.parameters) == unique_text(tool, seen) for one in meant[:1])


def same_effects(state: State, tool: ToolSpec, seen: JsonObject) -> list[str]:
    """What was called, and had the effect that a call with these parameters has: a session made anew or, where the tool says so, other
    words make no other effect of it."""
    made = state.made_of(tool, seen) if tool.effect == "once" else ()
    return list(dict.fromkeys(base_of(call.key) for call in made if call.status == "succeeded"))


def told_unique(maker: StepId, tool: ToolSpec) -> str:
    """Asks what is meant by a call whose effect another one has had."""
    return (
        f"{_maker(maker)} has had this effect already: {one_effect(tool)}; leave it out if that is the effect that is wanted, or set `repeat: true` on it, with its `repeat_reason`, if it is "
        "wanted once more"
    )


def _had(call: CallState, tool: ToolSpec) -> str:
    return f"{_maker(call.step_id)} has made a call of {tool.id!r} with the same {unique_words(tool)}"


def _maker(step_id: StepId) -> str:
    return f"step {step_id!r}" if step_id else "an earlier plan"
