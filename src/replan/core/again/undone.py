"""What was undone since stands for nothing: a done `once` call that a plan made anew states again, without what has taken it back.

"Create x" after "create x, delete x": the call has been made, and there is no x. So a plan has to say what it means, as it does
behind a change (`changes`). A plan that a person gives a fork says all that is wanted: there it is held, too, against a later call of the
same tool on the same, and against what others of the family have done (`in_family` has the calls that those have made).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from replan.core.again.had import Had, effects_of, is_of_one_subject, may_make, takes_back
from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Slot
from replan.core.ids import base_of, call_key, split_key
from replan.core.plan.graph import Graph
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import Step, StepId, ToolSpec

_MOST = 200
"""Effects that are looked at for each call of a plan that a person gave, the latest first."""


@dataclass(slots=True)
class Undone:
    """The effects of a task beside a plan that may state them again."""

    state: State
    resolve: Callable[[str], ToolSpec | None]
    steps: Sequence[Step]
    """Of the plan."""
    graph: Graph
    _gone: list[tuple[int, Had]] | None = field(default=None, compare=False, repr=False)
    """Each with its place among all effects of the task, the latest first."""
    _naming: dict[str, list[tuple[int, Had]]] = field(default_factory=dict, compare=False, repr=False)
    _before: dict[StepId, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    """By step: the tools of those that it waits for."""
    _plans: dict[int, dict[StepId, Step]] = field(default_factory=dict, compare=False, repr=False)

    def why_not(self, step: StepState, base: str) -> str:
        """Why what was done does not stand for this call of a step; empty if it does."""
        name = step.step.step_id
        found = self.since(name, base, whatever=step.meant == self.state.given_as)
        return "" if found is None else told_undone(name, *found)

    def stands(self, base: str, number: int) -> int:
        """Which of the like calls that are done stands for this one: the latest, where what was taken back are the others."""
        made = self._made(base)
        if made is None or call_key(base, number) not in self.state.took_effect:
            return number
        at, latest = made
        old = Had(self.state.task_id, self.state.took_effect[call_key(base, number)])
        first = self.state.ledger.order()[base][0]
        between = (one for place, one in self._about(old, whatever=False) if first < place < at)
        return (
            split_key(latest.key)[1] if any(takes_back(one, old, self.resolve) for one in between) else number
        )

    def since(self, name: StepId, base: str, *, whatever: bool = False) -> tuple[Had, Had] | None:
        """What was made of the call that this step makes, and what was done about it since that comes not after it in the plan, too.

        `whatever`: not only what takes it back.
        """
        made = self._made(base)
        if made is None:
            return None
        at, call = made
        mine = Had(self.state.task_id, call)
        for place, one in self._about(mine, whatever=whatever):
            if place > at and one.deed.base != base and self._changes(one, mine, at, name, whatever):
                return mine, one
        return None

    def _made(self, base: str) -> tuple[int, CallState] | None:
        """The latest of these calls, with its place."""
        places = self.state.ledger.order().get(base, ())
        for number in range(len(places), 0, -1):
            if (call := self.state.took_effect.get(call_key(base, number))) is not None:
                return places[-1], call
        return None

    def _about(self, made: Had, *, whatever: bool) -> Iterable[tuple[int, Had]]:
        gone = self._left()
        if whatever or not gone:
            return [*gone[:_MOST], *self._by_kin(made)]
        found = {id(one): one for name in made.known_by for one in self._naming.get(name, ())}
        return [*found.values(), *self._by_kin(made)]

    def _by_kin(self, made: Had) -> Iterator[tuple[int, Had]]:
        """What others of the family have done since, after all that is told here."""
        after = self.state.ledger.deeds
        return ((after, one) for one in self.state.by_kin[-_MOST:] if one.call.started >= made.ended)

    def _left(self) -> list[tuple[int, Had]]:
        if self._gone is None:
            order = self.state.ledger.order()
            self._gone = sorted(
                (
                    (at[-1], Had(self.state.task_id, call))
                    for call in effects_of(self.state)
                    if call.status == "succeeded" and (at := order.get(base_of(call.key)))
                ),
                key=lambda one: one[0],
                reverse=True,
            )
            for one in self._gone:
                for name in one[1].values:
                    self._naming.setdefault(name, []).append(one)
        return self._gone

    def _changes(self, one: Had, made: Had, at: int, name: StepId, whatever: bool) -> bool:
        """True if the later effect is in the way of the made one, whose place this is, for the step of this name."""
        back = takes_back(one, made, self.resolve)
        if not (
            back or (whatever and (one.call.tool_id == made.call.tool_id or self._may_come_before(name, one)))
        ):
            return False
        if self._is_beside(one, made) or self._was_so(one, made, at):
            return False
        then = self._plan(one.call.plan).get(one.call.step_id)
        again = [step.step_id for step in self.steps if may_make(step, one, then, made, self.resolve)]
        if again:  # it comes after this one once more, or it is a plan of another order
            return {*again}.issubset(self.graph.upstream(name))
        if back or one.call.tool_id != made.call.tool_id:
            return back
        return is_of_one_subject(one, made, self.resolve, lambda: bool(self.graph.needed_by.get(name)))

    def _may_come_before(self, name: StepId, one: Had) -> bool:
        """True if a step that this one waits for calls the tool of that effect."""
        tools = self._before.get(name)
        if tools is None:
            before = {*self.graph.upstream(name)}
            named = (
                call.tool for step in self.steps if step.step_id in before for call in step.actions or (step,)
            )
            found = (self.resolve(tool) for tool in named)
            tools = self._before[name] = frozenset(tool.id for tool in found if tool is not None)
        return one.call.tool_id in tools

    def _was_so(self, one: Had, made: Had, at: int) -> bool:
        """True if it sets what was so then."""
        if one.call.effect != "repeatable" or one.done(self.resolve).things.meet(
            made.done(self.resolve).things
        ):
            return False
        return not self.state.ledger.was_otherwise(one.deed.base, at)

    def _is_beside(self, one: Had, made: Had) -> bool:
        """True if one plan had them side by side."""
        together = one.task_id == made.task_id and one.call.plan == made.call.plan
        return together and not self._comes_after(one.call, made.call)

    def _comes_after(self, one: CallState, made: CallState) -> bool:
        """True if the step of the one waits for that of the other in their plan."""
        plan, waits = self._plan(one.plan), [one.step_id]
        seen = set(waits)
        while waits:
            step = plan.get(waits.pop())
            for name in step.dependencies if step is not None else ():
                if name == made.step_id:
                    return True
                if name not in seen:
                    seen.add(name)
                    waits.append(name)
        return False

    def _plan(self, version: int) -> dict[StepId, Step]:
        if version not in self._plans:
            self._plans[version] = {one.step.step_id: one.step for one in self._steps_of(version)}
        return self._plans[version]

    def _steps_of(self, version: int) -> Iterator[StepState]:
        every = self.state.every_step()
        return (one for one in every if one.born <= version and not 0 < one.gone <= version)


def told_undone(name: StepId, made: Had, since: Had) -> str:
    """Asks what is meant by a call that was made, and about which something was done since."""
    whose = "" if since.task_id == made.task_id else f" of task {since.task_id!r}"
    return (
        f"step {name!r} makes the call of {made.call.tool_id!r} that step {made.call.step_id!r} has made, and {since.told}{whose} "
        "was about the same after that and does not come after it here: leave it out if what was done counts (refer to it as it is), or set "
        "`repeat: true` with its `repeat_reason` if it is wanted once more"
    )


def undone_since(
    step: StepState, slot: Slot, base: str, state: State, resolve: Callable[[str], ToolSpec | None]
) -> str:
    """Why this call is neither made nor answered with what a like one gave, which was undone since; empty if it may be."""
    if step.former is not None or step.meant in state.continued or is_meant_again(step.step, slot.action_id):
        return ""  # what goes on from a first part leaves nothing out
    return _of_plan(state, resolve).why_not(step, base)


def standing(
    step: StepState,
    slot: Slot,
    base: str,
    number: int,
    state: State,
    resolve: Callable[[str], ToolSpec | None],
) -> int:
    """Which of several like calls that are done stands for this one: the latest, where the one of this number was taken back before it."""
    place = (step.step.step_id, slot)
    if (
        step.former is not None
        or step.meant in state.continued
        or len(state.ledger.order().get(base, ())) < 2
    ):
        return number
    if is_meant_again(step.step, slot.action_id) or state.ledger.others(base, place):
        return number
    found = _of_plan(state, resolve).stands(base, number)
    if found != number:
        state.ledger.occupy(call_key(base, found), place)
    return found


def _of_plan(state: State, resolve: Callable[[str], ToolSpec | None]) -> Undone:
    known: tuple[int, Undone] | None = state.taken_back
    if known is None or known[0] != state.plans:
        steps = [one.step for one in state.steps.values()]
        known = state.taken_back = state.plans, Undone(state, resolve, steps, state.graph())
    return known[1]
