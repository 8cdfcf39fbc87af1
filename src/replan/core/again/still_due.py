"""What new steps of a plan would do beside steps that stay in it and are yet to run: the two were written by two plans.

A plan that writes an effect twice has chosen both. One that keeps a step of the plan before, and writes the same effect anew over another session,
or by a tool that does the same, has not said so. It is told with the plan, since whichever comes second finds the other one done, and in its own
plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from replan.core.again.planned_calls import Call, PlannedCalls
from replan.core.calls.site import Slot, items_in_words
from replan.core.calls.telling import Telling
from replan.core.calls.told_alike import Told
from replan.core.plan.constant import ConstantCall
from replan.core.plan.index import references_of
from replan.core.recovery.in_part import of_this_alone
from replan.core.references.conditions import roots
from replan.core.state.restated import by_readings
from replan.core.state.task import State, ids_of
from replan.core.state.written import Form, Written, words_of
from replan.core.types import Step, StepId, ToolSpec

_MOST_PAIRS = 5_000
"""Calls held against each other one by one; of more, those alone that are told the same in every value."""
Resolve = Callable[[str], ToolSpec | None]


class _Effect(NamedTuple):
    """A call with an effect that counts each time, as its plan writes it."""

    call: Call
    told: Told
    forms: dict[str, Form]

    @classmethod
    def of(cls, call: Call, version: int, words: Written) -> _Effect:
        known = call.values if call.known is None else call.known
        named = words_of(call.step, call.slot)
        open_ = [name for name in (*named, *call.tool.parameters.get("required", ())) if name not in known]
        parts = Telling.of(call.tool).parts
        forms = words.forms(call.step, version, call.slot, tuple(named), parts)
        return cls(call, Told.of(call.tool, known, open_), forms)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            sorted((name, self.told.keys[name]) for name in self.told.given if name in self.told.keys)
        )

    def may_be(self, other: _Effect) -> bool:
        """True if nothing that the two plans have written tells them apart."""
        differing = self.told.differing(other.told)
        for name in differing:
            mine, theirs = self.forms.get(name), other.forms.get(name)
            if mine is None or theirs is None or not (mine.shown and theirs.shown and mine.may_be(theirs)):
                return False
        return self.told.is_like(other.told, differing)


def told_still_due(
    state: State,
    steps: Collection[Step],
    new: Collection[Step],
    due: Collection[StepId],
    constants: Mapping[StepId, ConstantCall],
    resolve: Resolve,
    told: Collection[StepId] = (),
) -> Iterator[str]:
    """One text for each new step that does what a step is yet to do which stays. `told`: those that are told already."""
    kept = [step for step in steps if step.step_id in due]
    if not kept or not new:
        return
    words = _written(state, steps, new, resolve)
    planned = _effects(PlannedCalls(state, kept, constants, resolve), kept, state.plans, words)
    theirs = [one for one in planned if not _is_had(state, one.call)]
    if not theirs:
        return
    mine = list(_effects(PlannedCalls(state, new, constants, resolve), new, state.plans + 1, words))
    fresh = words.those(one.call.step.step_id for one in mine)
    found: dict[StepId, list[tuple[Slot, _Effect]]] = {}
    for one, other in _alike(mine, theirs):
        name = one.call.step.step_id
        if (
            one.call.again
            or name in told
            or other.call.step.step_id in told
            or not all(form.cone.effects.isdisjoint(fresh) for form in one.forms.values())
        ):
            continue  # what is told of another effect is another, too
        found.setdefault(name, []).append((one.call.slot, other))
    for name, places in found.items():
        yield _text(state, steps, name, places)


def _is_had(state: State, call: Call) -> bool:
    """True if the step has made this call already, and keeps what it gave."""
    step = state.steps.get(call.step.step_id)
    own = step.every_call() if step is not None else ()
    return any(one.slot == call.slot and one.status == "succeeded" for one in own)


def _alike(mine: Sequence[_Effect], theirs: Sequence[_Effect]) -> Iterator[tuple[_Effect, _Effect]]:
    by_tool: dict[str, list[_Effect]] = {}
    for one in theirs:
        by_tool.setdefault(one.call.tool.id, []).append(one)
    pairs = sum(len(by_tool.get(one.call.tool.id, ())) for one in mine)
    by_key: dict[tuple[str, object], list[_Effect]] = {}
    if pairs > _MOST_PAIRS:
        for one in theirs:
            by_key.setdefault((one.call.tool.id, one.key), []).append(one)
    for one in mine:
        if by_readings(one.forms, one.told.values, one.call.tool):
            continue  # which one it is shows when they are made
        for tool_id in (one.call.tool.id, *one.call.tool.counterparts):
            others = by_key.get((tool_id, one.key), ()) if by_key else by_tool.get(tool_id, ())
            like = next((other for other in others if one.may_be(other)), None)
            if like is not None:
                yield one, like
                break


def _effects(calls: PlannedCalls, steps: Collection[Step], version: int, words: Written) -> Iterator[_Effect]:
    for step in steps:
        for call in calls.of(step):
            if call.tool.effect == "once" and not step.when:
                yield _Effect.of(call, version, words)


def _written(state: State, steps: Collection[Step], new: Collection[Step], resolve: Resolve) -> Written:
    here = {name: step for step in steps for name in ids_of(step)}
    fresh = {step.step_id for step in new}

    def words(name: str, version: int) -> Step | None:
        return here.get(name) or state.words_of(name, version)

    def only_reads(step: Step) -> bool:
        known = state.steps.get(step.step_id)
        if step.step_id not in fresh and known is not None and known.calls:
            return state.restated.only_reads(step)
        tools = [resolve(one.tool) for one in step.actions or (step,)]
        return all(tool is not None and tool.effect == "reads" for tool in tools)

    return Written(words, only_reads, state.restated.given)


def _is_referred_to(step: Step, steps: Collection[Step]) -> bool:
    names = ids_of(step)
    heads = (ref.head for other in steps for ref in references_of(other))
    conditions = (name for other in steps if other.when for name, _ in roots(other.when))
    return any(name in names for name in chain(heads, conditions))


def _text(state: State, steps: Collection[Step], name: StepId, places: Sequence[tuple[Slot, _Effect]]) -> str:
    other = places[0][1].call
    items = sorted({slot.item for slot, _ in places if slot.item is not None})
    where = (
        f", {items_in_words(items)}"
        if items
        else f", {places[0][0].words()}"
        if places[0][0].action_id
        else ""
    )
    known = state.steps.get(other.step.step_id)
    mine = next((step for step in steps if step.step_id == name), None)
    alone = of_this_alone(mine, places[0][0]) if mine is not None else ""
    out = f"leave {name!r} out"
    if items:
        out = f"leave {items_in_words(items)} out of its list, and nothing else"
    elif places[0][0].action_id is not None:
        out = "leave that action out, and nothing else"
    if known is not None and known.status == "failed":
        stands = "has failed, and is made again once the new steps are done"
        how = out if alone else f"{out}: what has to be done before it is wanted, and nothing else"
        if not alone and not _is_referred_to(other.step, steps):
            how += f"; or, where this is to be done and not that, say `instead_of: [{json.dumps(other.step.step_id)}]` on it, and it takes that place"
    else:
        stands, how = "stays and is yet to run", out
    return (
        f"step {name!r}{where}: {alone}step {other.step.step_id!r} of the plan before {stands}, and does the same with {other.tool.id!r}; {how}, or set "
        "`repeat: true` on it, with its `repeat_reason`, if the effect is wanted once more"
    )
