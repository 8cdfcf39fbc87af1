"""What a call would do over again that another tool has done, one that is declared to do the very same thing; or, where recovery has put the call
there, its own tool over another session.

A plan that calls both has chosen both. A later plan, or recovery, that calls the one where the other has had its effect has not said that it
means a second one. The outputs of two tools are not alike, so it is never answered with what the other gave: it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Place, Slot
from replan.core.calls.telling import one_effect
from replan.core.calls.told_alike import Told
from replan.core.failures.faults import DONE_ALREADY
from replan.core.ids import base_of
from replan.core.references.refs import has_references
from replan.core.state.made_instead import doubt_of, what_became
from replan.core.state.progress import CallState, StepState
from replan.core.state.restated import by_readings, is_read_otherwise
from replan.core.state.task import State
from replan.core.state.written import Form, words_of
from replan.core.types import JsonObject, Step, ToolId, ToolSpec
from replan.core.words import beginning, text_of

_SHOWN = 160
"""Characters of a failure, or of parameters, in a hint."""
Resolve = Callable[[str], ToolSpec | None]


class Done(NamedTuple):
    """An effect that a call would have over again."""

    call: CallState
    failed: CallState | None = None
    """It had failed as it is written now, and `call` was made in its place."""

    @property
    def sure(self) -> bool:
        return self.call.status != "unknown"


class _Chosen(NamedTuple):
    """What a plan has meant a place to call, before recovery put another call there."""

    tool_id: ToolId
    told: Told

    @classmethod
    def of(cls, name: str, parameters: JsonObject, resolve: Resolve, open_: Collection[str] = ()) -> _Chosen:
        tool = resolve(name)
        return cls(name if tool is None else tool.id, Told.of(tool, parameters, open_))


class _Written(NamedTuple):
    """A call as a plan writes it."""

    step: Step
    tool: ToolSpec
    told: Told
    forms: dict[str, Form]
    """How what it is told is written."""
    meant: int
    goes_on: bool
    """It is of a part that goes on from another: a reading that gives something else makes it another effect."""

    @property
    def read(self) -> frozenset[str]:
        """What the plan has not chosen itself; nothing, where only readings tell which call it is and the plan makes one of them again."""
        again = any(form.again or form.cone.again for form in self.forms.values())
        if again and by_readings(self.forms, self.told.values, self.tool):
            return frozenset()
        return frozenset(name for name, form in self.forms.items() if form.shown)

    def may_be(self, state: State, call: CallState, theirs: Told, tool: ToolSpec | None) -> bool:
        """True if no plan has chosen what differs between it and this call, which is of that tool."""
        if not (differing := self.told.differing(theirs)):
            return True
        same = (self.told.names & theirs.names) - differing
        if tool is None or (self.goes_on and is_read_otherwise(self.forms, differing, same)):
            return False
        return state.restated.chosen_alike(differing, self.forms, call, tool, self.meant)


def _done_by_others(
    state: State,
    tool: ToolSpec,
    told: Told,
    before: int,
    resolve: Resolve,
    written: _Written | None = None,
    planned: Sequence[Told] = (),
) -> Iterator[Done]:
    """What was done before this version of the plan by tools that do the same, where nothing tells it from such a call.

    `written`: how a plan writes it; what was planned beside it in the same words was chosen together with it. None: recovery has put it there,
    and its own tool is one of them. `planned`: what the place was to call before, where that does the same; what is like it was chosen beside
    it.
    """
    read = written.read if written is not None else frozenset[str]()
    own = (
        () if written is not None or tool.unique_by else (tool.id,)
    )  # what tells those apart is asked by itself
    for name in (*own, *tool.counterparts):
        other = resolve(name)
        for call, theirs in state.made_like(name, other, told, read):
            is_of_another = state.restated.is_of_another
            done = state.effect_for(call, before, tool) if is_of_another(call, before) else None
            if done is None or not is_of_another(done, before) or any(one.is_like(theirs) for one in planned):
                continue
            if (
                written is not None
                and state.meant_by(call) < before
                and state.was_planned_beside(written.step, call)
            ):
                continue
            if written is None or written.may_be(state, call, theirs, other):
                yield Done(done, None if done is call else call)


def planned_by_others(
    state: State,
    step: Step,
    slot: Slot,
    tool: ToolSpec,
    known: JsonObject,
    forms: dict[str, Form],
    resolve: Resolve,
    *,
    goes_on: bool,
) -> list[Done]:
    """The same of a call of a plan that has not begun. `known`: what is known of its parameters."""
    if not tool.counterparts or tool.effect != "once":
        return []
    needed = (*words_of(step, slot), *tool.parameters.get("required", ()))
    told = Told.of(tool, known, [name for name in needed if name not in known])
    written = _Written(step, tool, told, forms, state.plans + 1, goes_on)
    return list(_done_by_others(state, tool, told, state.plans + 1, resolve, written))


def done_before(
    state: State,
    step: StepState,
    slot: Slot,
    tool: ToolSpec,
    parameters: JsonObject,
    planned: JsonObject,
    resolve: Resolve,
) -> list[Done]:
    """The same of a call that is about to be made. One that recovery has changed is held against all that was done beside it, too.

    `planned`: what it would be called with as it is written.
    """
    if tool.effect != "once" or state.begun is None:
        return []
    known = step.calls.get(slot)
    if known is not None and known.status != "failed":
        return []  # it is under way
    rewritten = step.meant > state.begun.version
    changed = rewritten or (step.healing is not None and slot in step.healing.overrides)
    if not changed and (state.begun.version < 2 or not tool.counterparts):
        return []
    told = Told.of(tool, parameters)
    if not changed:
        forms = state.restated.forms_of(step.step, slot, state.plans, tool, parameters)
        written = _Written(step.step, tool, told, forms, step.meant, step.meant in state.continued)
        return list(_done_by_others(state, tool, told, step.planned, resolve, written))
    chosen = (
        _before_rewriting(step, state, resolve)
        if rewritten
        else [_as_planned(step.step, slot, planned, resolve)]
    )
    same = (tool.id, *tool.counterparts)
    found = _done_by_others(
        state,
        tool,
        told,
        state.plans + 1,
        resolve,
        planned=[one.told for one in chosen if one.tool_id in same],
    )
    place, very = (step.step.step_id, slot), {*state.bases(tool, parameters)}
    return [
        one
        for one in found
        if _is_beside(one, place, very) and not _was_meant_beside(one, tool, chosen, state)
    ]


def _is_beside(one: Done, place: Place, very: Collection[str]) -> bool:
    """True if it is no try of this place, nor the very call: which of those is meant is told by their numbers."""
    made = one.failed or one.call
    is_own = made.status == "failed" and (made.step_id, made.slot) == place
    return not is_own and base_of(one.call.key) not in very


def _was_meant_beside(one: Done, tool: ToolSpec, chosen: Sequence[_Chosen], state: State) -> bool:
    """True if it was meant as this one was, and was changed as this one: two payments to one who has moved."""
    made = one.failed or one.call
    step = state.steps.get(made.step_id)
    if made.tool_id != tool.id or step is None or step.healing is None:
        return False
    first = step.healing.failures(made.slot)[:1]
    return any(Told.of(tool, by.parameters).is_like(mine.told) for by in first for mine in chosen)


def _as_planned(step: Step, slot: Slot, parameters: JsonObject, resolve: Resolve) -> _Chosen:
    """What the place was to call; references that could not be read may be anything."""
    name = next((one.tool for one in step.actions if one.action_id == slot.action_id), step.tool)
    known = {name: value for name, value in parameters.items() if not has_references(value)}
    return _Chosen.of(name, known, resolve, parameters.keys() - known.keys())


def _before_rewriting(step: StepState, state: State, resolve: Resolve) -> list[_Chosen]:
    """What the step was to call before it was written anew: as the plan had it, and as it was called first."""
    name, version = step.step.step_id, state.begun.version if state.begun is not None else 1
    found = []
    if (words := state.words_of(name, version)) is not None:
        for action in words.actions or (words,):
            slot = Slot(None if action is words else action.action_id)  # type: ignore[union-attr]
            found.append(_as_planned(words, slot, words_of(words, slot), resolve))
    mine = step.healing
    firsts = (mine.failures(slot)[:1] for slot in mine.slots()) if mine is not None else ()
    found += [
        _Chosen.of(one.tool_id, one.parameters, resolve)
        for one in chain.from_iterable(firsts)
        if one.error.kind not in DONE_ALREADY  # what was in its way is none of its own
    ]
    return found


def unsaid(step: Step, slot: Slot, tool: ToolSpec, done: list[Done], *, changed: bool = False) -> str:
    """Why this call is not made, where others have done it: the plan does not say that it is meant again, or first it has to be known what one
    of them did. Empty if nothing is in its way. `changed`: recovery has put it in place of what the plan has marked."""
    again = not changed and is_meant_again(step, slot.action_id)
    asked = [one for one in done if not (again and one.sure)]
    return told_done(tool, asked[0]) if asked else ""


def told_done(tool: ToolSpec, done: Done) -> str:
    """Asks what is meant by a call of this tool."""
    call, failed = done
    if failed is None:
        what = f"step {call.step_id!r} has done this with {_shown(call)}{doubt_of(call)}"
    else:
        what = (
            f"step {failed.step_id!r} has meant this with {_shown(failed)}, {what_became(failed.fault)}; since then step {call.step_id!r} has "
            f"made {_shown(call)} in its place{doubt_of(call)}"
        )
    return (
        f"{what}, and {same_as(tool, failed or call)}: leave it out if that is the effect that is wanted, write the value that is meant if it is "
        "another effect, or say `repeat: true`, with its `repeat_reason`, if it is wanted once more"
    )


def same_as(tool: ToolSpec, call: CallState) -> str:
    """Why a call of the tool has the same effect as this one."""
    if call.tool_id != tool.id:
        return f"{call.tool_id!r} and {tool.id!r} do the same"
    if tool.unique_by:
        return one_effect(tool)
    return f"a secret, a session or a connection does not tell two effects of {tool.id!r} apart"


def _shown(call: CallState) -> str:
    return f"{call.tool_id!r} ({beginning(text_of(call.parameters), _SHOWN)})"
