"""Effects of others of a family that nothing tells from a call which is to be made here, though their keys are others.

Within one task neither a session nor a substitute tells two effects apart, nor what a call was made as after it had failed. The tasks of a family
change one world: what tells two effects apart in one of them does so over all.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

from replan.core.again.counterparts import same_as
from replan.core.again.had import Had
from replan.core.again.in_family import Family
from replan.core.calls.telling import Telling, unique_text, what_is_done
from replan.core.calls.told_alike import Told
from replan.core.data.canonical import one_form
from replan.core.ids import base_of, call_content, digest
from replan.core.secrets import is_mask
from replan.core.state.made_instead import doubt_of, what_became
from replan.core.state.progress import CallState
from replan.core.state.task import State
from replan.core.types import CallKey, JsonObject, StepId, ToolSpec
from replan.core.walk import scalars
from replan.core.words import beginning, text_of

_SHOWN = 160
"""Characters of parameters in a hint."""


class Alike(NamedTuple):
    """An effect that another task has had, or may have had."""

    had: Had
    failed: CallState | None = None
    """It had failed as the call here is, and was made in its place."""

    @property
    def key(self) -> CallKey:
        return self.had.call.effect_key

    @property
    def is_sure(self) -> bool:
        return self.had.call.status == "succeeded"

    def answers(self, tool: ToolSpec, parameters: JsonObject) -> bool:
        """True if what it gave is what the call would give: on whose behalf it was made is all that differs."""
        call, plain = self.had.call, tool.put(unique_by=())
        if self.failed is not None or call.tool_id != tool.id:
            return False
        if any(map(is_mask, scalars(what_is_done(tool, call.parameters)))):
            return False  # what the log does not tell may be anything
        return unique_text(plain, call.parameters) == unique_text(plain, parameters)

    def told(self, tool: ToolSpec) -> str:
        """Asks what is meant by a call of this tool."""
        had, failed = self.had, self.failed
        shown = f"{had.call.tool_id!r} ({beginning(text_of(had.call.parameters), _SHOWN)})"
        if failed is None:
            what = f"task {had.task_id!r} has done this in step {had.call.step_id!r} with {shown}{doubt_of(had.call)}"
        else:
            what = (
                f"task {had.task_id!r} has meant this in step {failed.step_id!r}, {what_became(failed.fault)}, and has made {shown} in its "
                f"place{doubt_of(had.call)}"
            )
        by_name = failed is None or failed.tool_id != tool.id or tool.unique_by
        why = f", and {same_as(tool, failed or had.call)}" if by_name else ""
        return (
            f"{what}{why}: leave it out if that is the effect that is wanted, write it as it was made to go "
            "on with it, or set `repeat: true`, with its `repeat_reason`, if it is wanted once more"
        )


def name_of_all(tool: ToolSpec, parameters: JsonObject, state: State) -> str:
    """What a family knows a call by, and every other that nothing tells from it; empty where only the very call is such a one.

    `parameters`: as the log would have them.
    """
    text = unique_text(tool, parameters)
    tells_all = not (tool.unique_by or Telling.of(tool).silent)
    if tells_all and text == call_content(tool.id, one_form(tool.parameters, parameters)):
        return ""
    content = digest(f"{state.keyed_by}\x00alike\x00{text}")
    return f"{content}.like"


def is_under_way(
    state: State, tool: ToolSpec, parameters: JsonObject, *, mended: bool, but_for: Container[CallKey]
) -> bool:
    """True if the task, which is driven, makes such a call, or looks for what else to make in its place. `mended`: that is waited for, too.

    `but_for`: the very calls that whoever asks has taken: there they wait for it.
    """
    for call in state.made_of(tool, parameters):
        if call.key in but_for:
            continue
        if call.status in ("running", "retrying") and state.latest_try(call.key) is call:
            return True
        if mended and call.status == "failed" and is_looked_after(state, call):
            return True
    return False


def is_looked_after(state: State, call: CallState) -> bool:
    """True if the step of a failed call is not at its end: it may be made in other words."""
    step = state.steps.get(call.step_id)
    if not state.heals or step is None or step.closed or state.latest_try(call.key) is not call:
        return False
    now = step.calls.get(call.slot)
    return now is None or now.status not in ("succeeded", "unknown")


def alike(family: Family, tool: ToolSpec, parameters: JsonObject, key: CallKey, step: StepId) -> list[Alike]:
    """What others have had, or may have had, in the order of the ends; none that is part of this task. The very call is told by its key.

    `parameters`: as the log would have them; `step`: whose call it is.
    """
    found: dict[CallKey, Alike] = {}
    text, told = unique_text(tool, parameters), Told.of(tool, parameters)
    for task_id, state in family.others.items():
        for one in (
            *_by_this_tool(task_id, state, tool, text, key),
            *_by_others(family, task_id, state, tool, told, step),
        ):
            if not family.mine.has_had(one.key) and one.key != key:
                found.setdefault(one.key, one)
    return sorted(found.values(), key=lambda one: one.had.ended)


def _by_this_tool(task_id: str, state: State, tool: ToolSpec, text: str, key: CallKey) -> Iterator[Alike]:
    base = base_of(key)
    for call in state.made_of_text(tool, text):
        if call.status in ("running", "retrying") and state.latest_try(call.key) is not call:
            continue  # it was tried once more since
        if call.status != "failed":
            if base_of(call.effect_key) != base:
                yield Alike(Had(task_id, call))
            continue
        instead = state.effect_for(call, state.plans + 1, tool) or _begun_instead(state, call)
        if instead is None or instead.key == call.key:
            continue
        # once more in the same words: a later plan has meant it for the one that failed, which nobody is to make as well
        again = call.key == key and instead.plan > call.plan
        if again or not _is_of(state, instead, tool, text):
            yield Alike(Had(task_id, instead), call)


def _begun_instead(state: State, failed: CallState) -> CallState | None:
    """What its step has begun in the place of a failed call, and nobody has seen the end of."""
    step = state.steps.get(failed.step_id)
    if step is None:
        return None
    begun = (
        one for one in step.calls.values() if one.mended and one.effect != "reads" and _is_open(state, one)
    )
    moved = step.healing is not None and step.healing.repairs > step.healing.repairs_before
    return next((one for one in begun if moved or one.slot == failed.slot), None)


def _is_open(state: State, call: CallState) -> bool:
    return call.status in ("running", "retrying") and state.latest_try(call.key) is call


def _is_of(state: State, call: CallState, tool: ToolSpec, text: str) -> bool:
    return any(one is call for one in state.made_of_text(tool, text))


def _by_others(
    family: Family, task_id: str, state: State, tool: ToolSpec, told: Told, step: StepId
) -> Iterator[Alike]:
    """By tools that do the same, but for what this task is to have by its own plan, too: that has chosen both."""
    for name in tool.counterparts:
        for call, _ in state.made_like(name, family.resolve(name), told):
            effect = state.effect_for(call, state.plans + 1, tool)
            if effect is None or effect.status == "failed":
                continue
            had = Had(task_id, effect)
            if not family.is_to_have(had, but_for=step):
                yield Alike(had, None if effect is call else call)
