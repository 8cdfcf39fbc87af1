"""Effects that stand for ones that were not had by the word of a plan: `instead_of` of the step that had them.

Code checks the rest: the effect came later, is of the same tool or of one that is declared to do the same, and makes good one only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.evaluation.undone import Undone
from replan.core.report.explain import step_words
from replan.core.state.progress import CallState, StepState
from replan.core.state.recovery import Recovery
from replan.core.types import CallKey, StepId, ToolId


class _Had(NamedTuple):
    """An effect that a step has had, or that was had in its place."""

    name: tuple[str, int]
    """Each makes good one."""
    tool_id: ToolId
    came: int
    by: StepId
    free: bool = True
    """It stands for none yet."""


def by_word(
    found: Sequence[Undone],
    effects: Effects,
    spare: Mapping[StepId, Sequence[CallState]],
    known: Recovery | None,
) -> list[Undone]:
    """The same, each with the steps that stand for all of it by the word of their plan.

    What a step was to have in place of another, and has not had either, is told of that step alone.
    """
    said = _said(effects)
    if not said:
        return list(found)
    free = {call.key for calls in spare.values() for call in calls}
    left = list(found)
    at = {one.step.step.step_id: n for n, one in enumerate(left)}
    room = {name: [lost.tool_id for lost in left[n].lost] for name, n in at.items()}
    """Of each step, what it lacks itself that no earlier one is told with yet."""
    taken: set[tuple[str, int]] = set()
    for n in sorted(range(len(left)), key=lambda n: left[n].since, reverse=True):
        one, since = left[n], left[n].first or left[n].since
        names = (one.step.step.step_id, *one.also)
        said_so = (step for name in names for step in said.get(name, ()) if step.meant >= since)
        later = {step.step.step_id: step for step in said_so}
        if not later:
            continue
        had = [
            made for step in later.values() for made in _had(step, effects, free, known) if made.came >= since
        ]
        mine = [effects.by_name[name] for name in names if name in effects.by_name]
        fitting = _ByTool([made for made in had if made.free], effects)
        by: dict[StepId, None] = {}
        still, owed = [], 0
        for lost in one.lost:
            made = fitting.next(lost.tool_id, taken) or _tried_before(lost, mine, had, effects)
            if made is not None:
                by[made.by] = None
                effects.stand(made.name[0], *mine)
            elif (other := _lacks_it_too(lost, later, room, effects)) is not None:
                left[at[other]] = left[at[other]].told_with(one)
                continue
            else:
                owed += 1
            still.append(lost)
        left[n] = one._replace(lost=still)
        if by and not owed:
            words = " and ".join(step_words(effects.by_name[name]) for name in by)
            what = f"{one.what}; by its plan {words} stand{'s' if len(by) == 1 else ''} for it"
            left[n] = left[n]._replace(instead=tuple(by), what=what)
    return [one for one, before in zip(left, found, strict=True) if one.lost or not before.lost]


def _said(effects: Effects) -> dict[StepId, list[StepState]]:
    """By the step: those that a plan has in its place. Who says so of the step that it all began with says it of each that was tried
    in vain for that since."""
    said: dict[StepId, list[StepState]] = {}
    for step in effects.every:
        for name in step.step.instead_of:
            said.setdefault(name, []).append(step)
    names = list(said)
    for name in names:  # it grows
        if len(said[name]) < 2 or not _failed(effects.by_name.get(name)):
            continue
        for tried in list(said[name]):
            if not tried.gone or not _failed(tried):
                continue
            since = [step for step in said[name] if step.meant >= tried.gone]
            if since and tried.step.step_id not in said:
                names.append(tried.step.step_id)
            mine = said.setdefault(tried.step.step_id, []) if since else []
            known = {step.step.step_id for step in mine}
            mine += [step for step in since if step.step.step_id not in known]
    return said


def _failed(step: StepState | None) -> bool:
    return step is not None and step.status != "succeeded"


class _ByTool:
    """Effects that are taken one by one, each by what a tool was to do."""

    def __init__(self, had: Sequence[_Had], effects: Effects) -> None:
        self._had = had
        self._effects = effects
        self._left: dict[ToolId, Iterator[_Had]] = {}

    def next(self, planned: ToolId, taken: set[tuple[str, int]]) -> _Had | None:
        """The next that does the same as this tool."""
        left = self._left.setdefault(
            planned, (made for made in self._had if self._effects.by_same(planned, made.tool_id))
        )
        made = next((made for made in left if made.name not in taken), None)
        if made is not None:
            taken.add(made.name)
        return made


def _tried_before(
    lost: Lost, mine: Sequence[StepState], had: Sequence[_Had], effects: Effects
) -> _Had | None:
    """An effect that stands for what other plans have tried in vain, and may be the lost one of which nobody knows what it was to be."""
    if lost.is_known:
        return None
    fitting = (made for made in had if effects.by_same(lost.tool_id, made.tool_id))
    return next((made for made in fitting if effects.may_stand_too(made.name[0], mine)), None)


def _lacks_it_too(
    lost: Lost, later: Iterable[StepId], room: Mapping[StepId, list[ToolId]], effects: Effects
) -> StepId | None:
    """A step in its place that was to do the same, and has not either."""
    for name in later:
        tools = room.get(name) or ()
        if (tool := next((tool for tool in tools if effects.by_same(lost.tool_id, tool)), None)) is not None:
            room[name].remove(tool)
            return name
    return None


def _had(
    step: StepState, effects: Effects, free: Collection[CallKey], known: Recovery | None
) -> Iterator[_Had]:
    """The effects of the step, also one that it only states again; and those of whatever took its own place."""
    for call in step.calls.values():
        if call.status == "succeeded" and call.effect != "reads":
            made = effects.origin(call)
            yield _Had((made.key, 0), made.tool_id, effects.came(made), made.step_id, made.key in free)
    heirs = known.replaced if known is not None and step.gone else {}
    name = step.step.step_id
    seen, own = {name}, list[CallState]()
    while (name := heirs.get(name, "")) and name not in seen and name in effects.by_name:
        seen.add(name)
        own += [call for call in effects.own(effects.by_name[name]) if effects.came(call) >= step.gone]
    for n, call in enumerate(own[: len(effects.lost(step))] if own else ()):
        yield _Had((step.step.step_id, n), call.tool_id, effects.came(call), call.step_id)
