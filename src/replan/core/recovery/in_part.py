"""What steps that failed in part have done: a mark on a whole list would have that once more, whatever it was meant for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from replan.core.calls.site import ONLY, Slot, items_in_words
from replan.core.ids import base_of
from replan.core.references.refs import Reference, listed
from replan.core.references.resolve import resolve
from replan.core.state.task import State, StepState
from replan.core.types import Action, Step, StepId, ToolSpec
from replan.errors import UnresolvedReference

_MOST_ITEMS = 1_000
"""Of one list that are looked at with the plan; the others when they are called."""


def marks_what_is_done(step: StepState, slot: Slot, tool_id: str, base: str, state: State) -> str:
    """Why a call is not made that only the mark of its whole step (`repeat`) means once more, where a step of an earlier plan that
    failed at others has made it; empty if it is none.

    Such a mark is mostly for what failed there, as the hint at it says.
    """
    if step.meant < 2 or slot == ONLY or not step.step.repeat or state.recovery is None:
        return ""
    if any(one.repeat for one in step.step.actions if one.action_id == slot.action_id):
        return ""
    known = step.calls.get(slot)
    if step.former is not None or (known is not None and known.status != "failed"):
        return ""  # it is its own
    if state.recovery.in_part is None or state.recovery.in_part[0] != state.plans:
        state.recovery.in_part = state.plans, done_in_part(state.recovery.dropped.values())
    made = next(
        (
            name
            for name in state.recovery.in_part[1].get(base, ())
            if not _is_settled(state, name, step.step.step_id)
        ),
        "",
    )
    return _told(step.step.step_id, slot.words(), tool_id, made) if made else ""


def planned_marks(
    state: State, new: Iterable[Step], tools: Callable[[str], ToolSpec | None]
) -> Iterator[str]:
    """The same of the new steps of a plan, as far as the values that it writes tell it."""
    marked = [step for step in new if step.repeat and (step.for_each is not None or step.actions)]
    dropped = state.recovery.dropped.values() if marked and state.recovery is not None else ()
    done = done_in_part([*dropped, *state.steps.values()]) if marked else {}
    for step in marked if done else ():
        found: list[tuple[Slot, str, StepId]] = []
        for slot, tool, parameters in _calls(step, tools):
            by = (name for name in done.get(state.base(tool, parameters), ()) if name != step.step_id)
            made = next((name for name in by if not _is_settled(state, name)), "")
            found += [(slot, tool.id, made)] if made else []
        if found:
            items = sorted({slot.item for slot, _, _ in found if slot.item is not None})
            yield _told(step.step_id, items_in_words(items) if items else found[0][0].words(), *found[0][1:])


def _calls(
    step: Step, tools: Callable[[str], ToolSpec | None]
) -> Iterator[tuple[Slot, ToolSpec, dict[str, Any]]]:
    """The effects that the step makes by the mark of all of it, where their values are written."""
    items = [None] if step.for_each is None else listed(step.for_each)
    for (at, item), one in product(list(enumerate(items or ()))[:_MOST_ITEMS], step.actions or (step,)):
        tool = tools(one.tool)
        alone = isinstance(one, Action) and one.repeat
        if tool is None or tool.effect != "once" or alone:
            continue
        slot = Slot(
            one.action_id if isinstance(one, Action) else None, at if step.for_each is not None else None
        )

        def of(ref: Reference, slot: Slot = slot, item: Any = item) -> tuple[Any, str]:
            if slot.item is None or ref.head not in ("item", "index"):
                raise UnresolvedReference(ref.raw, where="the plan", why="it is no item of a list")
            return (item if ref.head == "item" else slot.item), slot.words()

        try:
            yield slot, tool, resolve(one.parameters, of)
        except UnresolvedReference:
            continue  # it shows when it is called


def of_this_alone(step: Step, slot: Slot) -> str:
    """How a hint at one of several calls begins: a mark on their step would be for all of them."""
    if slot == ONLY or step.repeat:
        return ""
    read = step.for_each is not None and listed(step.for_each) is None
    how = "to leave it out, write the list without it; " if read else ""
    return f"this call alone ({how}a step of its own says `repeat`: on a whole list it means every item): "


def done_in_part(steps: Iterable[StepState]) -> dict[str, list[StepId]]:
    """By what was called: the steps that have done it, and failed at others of their calls."""
    found: dict[str, list[StepId]] = {}
    for step in steps:
        if step.status != "failed" or (step.items or 1) * max(1, len(step.step.actions)) < 2:
            continue
        for call in step.calls.values():
            if call.status == "succeeded" and call.effect == "once":
                found.setdefault(base_of(call.key), []).append(step.step.step_id)
    return found


def _is_settled(state: State, name: StepId, by: StepId = "") -> bool:
    """True if a step has taken its place, and has succeeded."""
    heirs: Mapping[StepId, StepId] = state.recovery.replaced if state.recovery is not None else {}
    seen = {name}
    while (heir := heirs.get(name, "")) and heir not in seen and heir != by:
        seen.add(heir)
        name = heir
        end = state.steps.get(heir) or state.earlier.get(heir)
        if end is not None and end.status == "succeeded":
            return True
    return False


def _told(name: StepId, where: str, tool_id: str, made: StepId) -> str:
    return (
        f"step {name!r}, {where}: step {made!r} has made this call of {tool_id!r}, and failed at others, and `repeat` on a whole step means "
        "each of its calls once more: leave out what is done, and set `repeat: true` on a step that makes only what is wanted once more"
    )
