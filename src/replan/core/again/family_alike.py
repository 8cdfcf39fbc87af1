"""Effects of others of a family that nothing tells from a call which is to be made here, though their keys are others.

Within one task neither a session nor a substitute tells two effects apart, nor what a call was made as after it had failed. The tasks of a family
change one world: what tells two effects apart in one of them does so over all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import NamedTuple

from replan.core.again.counterparts import same_as
from replan.core.again.had import Had
from replan.core.again.in_family import Family
from replan.core.calls.site import Slot
from replan.core.calls.telling import unique_text, what_is_done
from replan.core.calls.told_alike import Told
from replan.core.failures.faults import NOT_MADE
from replan.core.ids import digest
from replan.core.recovery.in_place import Instead
from replan.core.secrets import is_mask
from replan.core.state.made_instead import doubt_of, what_became
from replan.core.state.progress import CallState
from replan.core.state.task import State
from replan.core.types import CallKey, JsonObject, StepId, ToolSpec
from replan.core.walk import scalars
from replan.core.words import beginning, text_of

Resolve = Callable[[str], ToolSpec | None]
_SHOWN = 160
"""Characters of parameters in a hint."""


class Alike(NamedTuple):
    """An effect that another task has had, or may have had."""

    had: Had
    failed: CallState | None = None
    """It had failed as the call here is, and was made in its place."""
    stands: bool = True
    """It is known to be in place of that one, and of no other."""

    @property
    def key(self) -> CallKey:
        return self.had.call.effect_key

    @property
    def is_sure(self) -> bool:
        return self.had.call.status == "succeeded"

    @property
    def tells(self) -> tuple[bool, bool]:
        """How well it tells of the effect: best is what surely had it, and the call itself, not one that it stands for in another task."""
        return self.is_sure, self.had.call.was_made and not self.had.call.of_call

    @property
    def counts(self) -> bool:
        """True if it surely is what the call was for: who leaves that out leaves nothing undone."""
        return self.is_sure and self.stands

    def answers(self, tool: ToolSpec, parameters: JsonObject) -> bool:
        """True if what it gave is what the call would give: on whose behalf it was made is all that differs."""
        call, plain = self.had.call, tool.put(unique_by=())
        if self.failed is not None or call.tool_id != tool.id:
            return False
        if any(map(is_mask, scalars(what_is_done(tool, call.parameters)))):
            return False  # what the log does not tell may be anything
        return unique_text(plain, call.parameters) == unique_text(plain, parameters)

    def told(self, tool: ToolSpec, *, in_all: bool = False) -> str:
        """Asks what is meant by a call of this tool. `in_all`: it is one of several that say `repeat`."""
        had, failed = self.had, self.failed
        shown = f"{had.call.tool_id!r} ({beginning(text_of(had.call.parameters), _SHOWN)})"
        if failed is None:
            what = f"task {had.task_id!r} has done this in step {had.call.step_id!r} with {shown}{doubt_of(had.call)}"
        else:
            place = "in its place" if self.stands else "since, it may be in its place"
            what = (
                f"task {had.task_id!r} has meant this in step {failed.step_id!r}, {what_became(failed.fault)}, and has made {shown} "
                f"{place}{doubt_of(had.call)}"
            )
        by_name = failed is None or failed.tool_id != tool.id or tool.unique_by
        why = f", and {same_as(tool, failed or had.call)}" if by_name else ""
        if in_all:
            return (
                f"{what}{why}. Several like calls that say `repeat` are the effect that often in all, what others have done included: leave this "
                "one out if that is what is wanted, or plan it anew with `repeat: true`, by itself and with its `repeat_reason`, if it is wanted "
                "beyond that"
            )
        return (
            f"{what}{why}: leave it out if that is the effect that is wanted, write it as it was made to go "
            "on with it, or set `repeat: true`, with its `repeat_reason`, if it is wanted once more"
        )


def name_of_all(tool: ToolSpec, parameters: JsonObject, state: State) -> str:
    """What a family knows a call by, and every other that nothing tells from it: one of its tasks at a time makes such calls.

    Whether two calls of tools that do the same are one effect, their values tell in many ways: all of these have one name.
    `parameters`: as the log would have them.
    """
    same = sorted((tool.id, *tool.counterparts))
    text = "\x00".join(same) if tool.counterparts else unique_text(tool, parameters)
    content = digest(f"{state.keyed_by}\x00alike\x00{text}")
    return f"{content}.like"


def under_way(state: State, tool: ToolSpec, parameters: JsonObject) -> list[CallKey]:
    """The calls of this name that the task is about to make, or makes."""
    same, text = {tool.id, *tool.counterparts}, unique_text(tool, parameters)
    return [
        call.key
        for call in state.under_way()
        if call.tool_id in same
        and call.effect == "once"
        and (tool.counterparts or unique_text(tool, call.parameters) == text)
    ]


def all_under_way(state: State, resolve: Resolve) -> list[CallKey]:
    """What the task has to have for the calls that it is about to make, or makes: they themselves, what each is known by, and the planned call
    that each stands in for."""
    keys: list[CallKey] = []
    for call in state.under_way():
        tool = resolve(call.tool_id) if call.effect == "once" else None
        if tool is not None:
            keys += call.key, name_of_all(tool, call.parameters, state)
            planned = planned_call(state, call.step_id, call.slot, call.key, resolve)
            keys += [planned.key] if planned is not None else []
    return keys


class Planned(NamedTuple):
    """What the place of a call has tried before recovery put that one there."""

    tool: ToolSpec
    parameters: JsonObject
    key: CallKey


def planned_call(state: State, step_id: StepId, slot: Slot, key: CallKey, resolve: Resolve) -> Planned | None:
    """What the call of this key stands in for at this place: whoever has had that has had this. None: it is the planned one itself."""
    step = state.steps.get(step_id)
    if step is None or step.healing is None or slot not in step.healing.overrides:
        return None
    tried = (one for one in step.healing.failures(slot) if one.error.kind not in NOT_MADE)
    first = next((one for one in tried if one.call_key not in (None, key)), None)
    tool = resolve(first.tool_id) if first is not None else None
    if first is None or first.call_key is None or tool is None:
        return None
    return Planned(tool, first.parameters, first.call_key)


class Mending(NamedTuple):
    """What a task does about such calls of its own that have failed."""

    begun: list[CallKey]
    """Made in their place, or about to be."""
    looked_after: bool
    """It looks for what else to make."""


def mending(state: State, tool: ToolSpec, parameters: JsonObject, resolve: Resolve) -> Mending:
    """That of a task which is driven."""
    told = Told.of(tool, parameters)
    like = (state.made_like(name, resolve(name), told) for name in tool.counterparts)
    tries = chain(state.made_of(tool, parameters), (call for calls in like for call, _ in calls))
    failed = [call for call in tries if call.status == "failed"]
    begun = (_begun_instead(state, call, tool) for call in failed)
    keys = [one.key for one in begun if one is not None]
    return Mending(keys, any(is_looked_after(state, call) for call in failed))


def is_looked_after(state: State, call: CallState) -> bool:
    """True if the step of a failed call is not at its end: it may be made in other words."""
    step = state.steps.get(call.step_id)
    if not state.heals or step is None or step.closed or state.latest_try(call.key) is not call:
        return False
    now = step.calls.get(call.slot)
    return now is None or now.status not in ("succeeded", "unknown")


def alike(
    family: Family,
    tool: ToolSpec,
    parameters: JsonObject,
    key: CallKey,
    step: StepId,
    claimed: Collection[CallKey],
) -> list[Alike]:
    """What others have had, or may have had, in the order of the ends; none that is part of this task.

    How many of such a call they have had is what counts: never which of the like calls it was there, and here. The very one is asked for by
    itself.

    `parameters`: as the log would have them; `step`: whose call it is; `claimed`: those that are to stand for other calls here.
    """
    known: dict[CallKey, Alike] = {}
    begun: list[Alike] = []
    text, told = unique_text(tool, parameters), Told.of(tool, parameters)
    mine, others = family.mine, family.others.items()
    same = [one for task_id, state in others for one in _by_this_tool(family, task_id, state, tool, text)]
    other = [one for task_id, state in others for one in _by_others(family, task_id, state, tool, told)]
    # but for what this task is to have by its own plan, too, and in part is about to: that has chosen both
    left = sorted((one for one in other if not mine.has_had(one.key)), key=lambda one: one.key not in claimed)
    to_have = family.yet_to_have([*{one.key: one.had for one in left}.values()], step)
    for one in (*same, *(one for one in left if one.key not in to_have)):
        if mine.has_had(one.key) or one.key in claimed or one.key == key:
            continue
        if one.failed is None and family.only_waits(one.had):
            continue
        if one.had.call.status in ("running", "retrying"):
            begun.append(one)
        elif one.key not in known or one.tells > known[one.key].tells:
            known[one.key] = one
    # several may have begun one call, and wait for the one that makes it
    found = (*known.values(), *(one for one in begun if one.key not in known))
    return sorted(found, key=lambda one: one.had.ended)


def _by_this_tool(family: Family, task_id: str, state: State, tool: ToolSpec, text: str) -> Iterator[Alike]:
    for call in state.made_of_text(tool, text):
        if call.status in ("running", "retrying") and not state.is_under_way(call):
            continue  # it was tried once more since
        if call.status != "failed":
            yield Alike(Had(task_id, call))
            continue
        instead = _instead(family, task_id, state, call, tool)
        if instead is not None and not _is_of(state, instead.call, tool, text):  # else it is found by itself
            yield Alike(Had(task_id, instead.call), call, instead.stands)


def _instead(family: Family, task_id: str, state: State, failed: CallState, tool: ToolSpec) -> Instead | None:
    """What was made in place of a failed call, or may have been, or was begun."""
    if state.is_under_way(failed):
        return None
    if (made := family.made_instead(task_id, failed, tool)) is not None:
        return made
    begun = _begun_instead(state, failed, tool)
    return None if begun is None else Instead(begun, stands=True)


def _begun_instead(state: State, failed: CallState, tool: ToolSpec) -> CallState | None:
    """What was begun in the place of a failed call, by its step or a later plan, and nobody has seen the end of."""
    step = state.steps.get(failed.step_id)
    if step is None:
        return state.begun_for(failed, tool)
    begun = (
        one for one in step.calls.values() if one.mended and one.effect != "reads" and state.is_under_way(one)
    )
    moved = step.healing is not None and step.healing.repairs > step.healing.repairs_before
    mine = next((one for one in begun if moved or one.slot == failed.slot), None)
    return mine or state.begun_for(failed, tool)


def _is_of(state: State, call: CallState, tool: ToolSpec, text: str) -> bool:
    return any(one is call for one in state.made_of_text(tool, text))


def _by_others(family: Family, task_id: str, state: State, tool: ToolSpec, told: Told) -> Iterator[Alike]:
    """By tools that do the same."""
    for name in tool.counterparts:
        for call, _ in state.made_like(name, family.resolve(name), told):
            if call.status == "failed":
                found = _instead(family, task_id, state, call, tool)
            else:
                effect = state.effect_for(call, state.plans + 1, tool)
                found = None if effect is None else Instead(effect, stands=True)
            if found is None or found.call.status == "failed":
                continue
            yield Alike(Had(task_id, found.call), None if found.call is call else call, found.stands)
