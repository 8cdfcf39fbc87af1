"""The same effect by two steps, of one plan or of several, which shows only when their references are read."""

from __future__ import annotations

from collections.abc import Collection

from replan.core.again.changes import failed_before
from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Place, Slot
from replan.core.plan.repeats import Deed, meant_by_order
from replan.core.state.made_instead import mended
from replan.core.state.restated import told_again
from replan.core.state.task import CallState, State, StepState, actions_of
from replan.core.types import JsonObject, Step, StepId, ToolSpec
from replan.ports import Tools


def unmeant(step: StepState, slot: Slot, tool: ToolSpec, twin: Place, state: State, tools: Tools) -> str:
    """Why this call is not made, where `twin` makes it too and nothing says that it is meant twice; empty if it is."""
    if is_meant_again(step.step, slot.action_id):
        return ""

    def deeds(name: StepId) -> list[Deed]:
        return _deeds(state.steps[name].step, state, tools)

    mine = _deed(tool, step.step, slot.action_id, state)
    of_one_part = step.meant not in state.continued or state.steps[twin[0]].meant == step.meant
    if of_one_part and meant_by_order(twin[0], step.step.step_id, mine, state.graph(), deeds):
        return ""
    other = f"step {twin[0]!r}" + (f", {words}" if (words := twin[1].words()) else "")
    return (
        f"{other} makes this very call of {tool.id!r} already, so its effect would come twice; "
        "a new plan may say `repeat: true` on the step if that is meant, else it is left out"
    )


def restated(step: StepState, slot: Slot, tool: ToolSpec, parameters: JsonObject, state: State) -> str:
    """Why this call is not made, where a later plan writes a done one in the same words and only what they refer to, or the
    metadata, has changed since, or where a plan that has kept the step has written it so; empty if it is none.

    Nobody has said that the effect is meant again: what the plan refers to had another value then.
    """
    if tool.unique_by or is_meant_again(step.step, slot.action_id):
        return ""
    known = step.calls.get(slot)
    if known is not None and known.status != "failed":
        return ""  # it is under way
    found = state.made_as_written(step, slot, tool, parameters)
    if found is None:
        return ""
    return told_again(found, "had another value then")


def mended_before(step: StepState, slot: Slot, tool: ToolSpec, bases: Collection[str], state: State) -> str:
    """Why this call is not made, where a later plan writes the first words of one that failed and was then made in others, or was
    left out by a plan that made others; empty if it is none.

    `bases`: every name that the call may have. Its effect was had: whoever means another one says so.
    """
    if step.meant < 2 or is_meant_again(step.step, slot.action_id):
        return ""
    known = step.calls.get(slot)
    if known is not None and known.status != "failed":
        return ""  # it is under way
    return failed_before(state, tool, bases, step.meant)


def stand_in(step: StepState, slot: Slot, bases: Collection[str]) -> CallState | None:
    """The effect that the step has had itself for an item which means a call of one of these contents, as recovery or a person had it made;
    None if it has had none, or another item has it.

    A list is read anew when its step is tried again, so its items are known by what they mean, and not by their place alone.
    """
    if slot.item is None or step.former is None:
        return None
    taken = {call.key for at, call in step.calls.items() if at != slot}
    found = [
        call
        for call in mended(step, bases)
        if call.plan >= step.meant and call.slot.action_id == slot.action_id and call.key not in taken
    ]
    return next((call for call in found if call.slot == slot), found[0] if found else None)


def _deeds(step: Step, state: State, tools: Tools) -> list[Deed]:
    names = [one.tool for one in step.actions] or [step.tool]
    found = zip(map(tools.resolve, names), actions_of(step), strict=True)
    return [_deed(tool, step, action, state) for tool, action in found if tool is not None]


def _deed(tool: ToolSpec, step: Step, action_id: str | None, state: State) -> Deed:
    parameters = step.parameters
    if action_id is not None:
        parameters = next(one.parameters for one in step.actions if one.action_id == action_id)
    missing = [name for name in tool.from_metadata if name not in parameters]
    known = state.metadata_of(step.step_id) if missing else {}
    return Deed.of(tool, {**parameters, **{name: known[name] for name in missing if name in known}})
