"""A `once` call that another task of the family has made, and whether it may stand for that of a step here.

The tasks of a family change one world. What another one has made stands for a step here unless the step comes after an effect that was
had since, or something was done about it since that is no part of this task: it would be told as done, and is not there any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from replan.core.again.had import Had, effects_of, is_of_one_thing, may_make
from replan.core.ids import base_of
from replan.core.plan.index import references_of
from replan.core.state.ledger import same_thing
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import CallKey, StepId, ToolSpec


@dataclass(slots=True)
class Family:
    """A task beside all others of its family, as their logs tell them by now."""

    mine: State
    others: Mapping[str, State]
    """Each after the one that it was forked from."""
    resolve: Callable[[str], ToolSpec | None]
    _foreign: list[Had] | None = field(default=None, compare=False, repr=False)
    _all: list[Had] | None = field(default=None, compare=False, repr=False)

    def maker(self, key: CallKey) -> Had | None:
        """Who has made this call, where it was another task."""
        for task_id, state in self.others.items():
            call = state.took_effect.get(key) or state.in_doubt.get(key)
            if call is not None and not call.of_task:
                return Had(task_id, call)
        return None

    def numbers_before(self, base: str, at: float) -> set[int]:
        """Which of the like calls others had made by then."""
        made = (one for one in self._by_others() if one.call.effect == "once" and one.ended <= at)
        return {int(one.call.key.rpartition(".")[2]) for one in made if base_of(one.call.key) == base}

    def by_others(self) -> list[Had]:
        """The effects of others that are no part of this task."""
        entries = self.mine.ledger.entries
        return [one for one in self._by_others() if one.call.key not in entries]

    def why_not(self, step: StepState, key: CallKey, made: Had) -> str:
        """Why what another task has made does not stand for the call of this step; empty if it does."""
        what = f"task {made.task_id!r} has made this call"
        end = "or set `repeat: true` with its `repeat_reason`"
        came = [Had(self.mine.task_id, call) for call in self._before(step)]
        for one in came:
            if self._at(one) > made.call.started and not self._was_so(one, made):
                return (
                    f"{what}, before {one.told}, which this step waits for: leave it out if what was done counts, do not let it wait for "
                    f"that, {end}"
                )
        for then in came:
            since, at = self._at(then), made.call.started
            between = (
                one for one in self._own_of_others(made) if since <= one.call.started and one.ended <= at
            )
            if (found := next((one for one in between if self._changes(one, then)), None)) is not None:
                return (
                    f"{what}, after {found.told} of {_of(found, made)} had changed what {then.told} did: leave it out if what was done "
                    f"counts, {end}"
                )
        if (found := self._undone(made)) is not None:
            return (
                f"{what}, and {found.told} of {_of(found, made)} was about the same after that and is no part of this task: leave it out, or "
                f"fork from a later event, if what was done counts, {end}"
            )
        return ""

    def gone_since(self, key: CallKey) -> str:
        """What was done about this call since by others and is no part of this task; empty if nothing was."""
        made = self.maker(key)
        found = self._undone(made) if made is not None else None
        return "" if found is None else f"task {found.task_id!r} in {found.told}"

    # ── what this task comes after ──

    def _before(self, step: StepState) -> Iterator[CallState]:
        """The effects that come before the step: of the steps that it waits for, and of those that the plan has no more."""
        steps = self.mine.steps
        waited = (steps[name] for name in self.mine.graph().upstream(step.step.step_id) if name in steps)
        calls = (call for one in waited for call in one.calls.values())
        gone = (call for one in self.mine.left_out for call in one.every_call())
        return (call for call in (*calls, *gone) if call.effect != "reads" and call.status == "succeeded")

    def _at(self, one: Had) -> float:
        """When the effect was had, whoever had it."""
        if (maker := self.maker(one.call.key)) is not None:
            return maker.ended
        entry = self.mine.ledger.entries.get(one.call.key) if one.call.reused else None
        return entry.at if entry is not None else one.ended

    def _was_so(self, one: Had, made: Had) -> bool:
        """True if it is `repeatable` and had set by then what it sets, which the other has left so: it changed nothing after that."""
        if one.call.effect != "repeatable" or one.deed.things.meet(made.deed.things):
            return False
        at = made.call.started
        mine = one.deed
        for other in reversed(self._every()):
            if other.ended > at:
                continue
            if other.deed.base == mine.base:
                return True
            if other.call.tool_id == mine.tool_id and same_thing(other.deed, mine):
                return False
        return False

    # ── what others have done ──

    def _by_others(self) -> list[Had]:
        """The effects that others have had themselves, or may have had, in their order."""
        if self._foreign is None:
            found: dict[tuple[CallKey, float], Had] = {}
            for task_id, state in self.others.items():
                for call in effects_of(state):
                    found.setdefault((call.key, call.started), Had(task_id, call))
            self._foreign = sorted(found.values(), key=lambda one: one.ended)
        return self._foreign

    def _own_of_others(self, made: Had) -> Iterator[Had]:
        """Those that this task neither has had too, nor is about to have by its plan, beside this one."""
        entries = self.mine.ledger.entries
        open_ = [
            one.step
            for one in self.mine.steps.values()
            if not one.closed
            and (
                one.step.for_each
                or one.step.actions
                or all(c.key != made.call.key for c in one.calls.values())
            )
        ]
        for one in self._by_others():
            if one.call.key in entries:
                continue
            theirs = self.others[one.task_id].steps.get(one.call.step_id)
            then = theirs.step if theirs is not None else None
            if not any(may_make(step, one, then, made, self.resolve) for step in open_):
                yield one

    def _every(self) -> list[Had]:
        if self._all is None:
            mine = [Had(self.mine.task_id, call) for call in effects_of(self.mine)]
            self._all = sorted((*mine, *self._by_others()), key=lambda one: one.ended)
        return self._all

    def _undone(self, made: Had) -> Had | None:
        """What was done since about what this call has done, and is no part of this task."""
        for one in self._own_of_others(made):
            if one.call.started < made.ended or one.call.key == made.call.key:
                continue
            if self._changes(one, made) and not self._was_so(one, made):
                return one
        return None

    def _changes(self, one: Had, made: Had) -> bool:
        """True if the one may have changed what the other has done: it is about the same, and does not merely stand beside it."""
        state = self.others.get(one.task_id)
        steps = state.steps if state is not None else {}
        mine, theirs = steps.get(one.call.step_id), steps.get(made.call.step_id)
        known = theirs is not None and any(call.key == made.call.key for call in theirs.every_call())
        if state is not None and mine is not None and known:
            if made.call.step_id not in state.graph().upstream(one.call.step_id):
                return False  # the plan has them side by side
            if any(ref.head == made.call.step_id for ref in references_of(mine.step)):
                return True
        return is_of_one_thing(one, made, self.resolve, is_used=lambda: self._is_used(made.call.key))

    def _is_used(self, key: CallKey) -> bool:
        """True if something here is made of what this call has made."""
        waits = self.mine.graph().needed_by
        return any(waits.get(name) for name in self._steps_of(key))

    def _steps_of(self, key: CallKey) -> Iterator[StepId]:
        """The steps here that make this call."""
        for name, step in self.mine.steps.items():
            if any(call.key == key for call in step.calls.values()):
                yield name


def _of(one: Had, made: Had) -> str:
    return "that task" if one.task_id == made.task_id else f"task {one.task_id!r}"
