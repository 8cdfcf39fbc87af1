"""A `once` call that another task of the family has made, and whether it may stand for that of a step here.

The tasks of a family change one world. What another one has made stands for a step here unless the step comes after an effect that was
had since, or something was done about it since that is no part of this task: it would be told as done, and is not there any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from replan.core.again.foreign import Foreign, Writers
from replan.core.again.had import (
    Had,
    are_of_two,
    effects_of,
    is_of_one_thing,
    is_written_so,
    may_make,
    subject_of,
    takes_back,
)
from replan.core.again.planned_calls import stated_by
from replan.core.again.yet_to_have import room, yet_to_have
from replan.core.calls.inside import are_beside, before_inside
from replan.core.calls.site import Slot
from replan.core.calls.telling import unique_text
from replan.core.plan.index import references_of
from replan.core.recovery.in_place import InPlace, Instead
from replan.core.state.ledger import same_thing
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import CallKey, StepId, ToolId, ToolSpec


class Family:
    """A task beside all others of its family, as their logs tell them by now; kept as long as it is driven."""

    __slots__ = (
        "_foreign",
        "_here",
        "_in_place",
        "_live",
        "_plan",
        "_seen",
        "_standing",
        "_stated",
        "_used",
        "_writers",
        "_written",
        "mine",
        "others",
        "resolve",
    )

    def __init__(
        self, mine: State, others: Mapping[str, State], resolve: Callable[[str], ToolSpec | None]
    ) -> None:
        """`others`: each after the one that it was forked from."""
        self.mine = mine
        self.others = others
        self.resolve = resolve
        self._foreign = Foreign()
        self._seen: object = None
        self._live: list[Had] = []
        """Those of others that this task has not had too, in their order; some of them it may have had since."""
        self._in_place: dict[tuple[str, ToolId], InPlace] = {}
        """By task and tool, as the logs of the others are."""
        self._standing: set[CallKey] = set()
        """Calls that nothing has taken back, as the logs of the others are."""
        self._plan: object = None
        self._writers = Writers((), resolve)
        """The steps here by what they call, in the plan as it is."""
        self._stated: dict[str, Counter[StepId]] | None = None
        """By what tells an effect from others: the steps that state it; None: nobody has asked."""
        self._written: dict[int, StepState | None] = {}
        """The step here that is written as that of the other was."""
        self._here: CallKey = ""
        """The key of the call that is asked about, which may be another one than that of the effect."""
        self._used: dict[CallKey, bool] = {}
        """Whether something here is made of what these calls have made: for one question."""

    def read_on(self, others: Mapping[str, State]) -> Iterator[None]:
        """Take up what the logs of the others have by now; now and then it is another's turn."""
        seen = [(task_id, id(state), state.last_seq) for task_id, state in others.items()]
        if seen == self._seen:
            return
        foreign = Foreign(self._foreign)
        yield from foreign.gather(others)
        self.others, self._foreign, self._seen = others, foreign, seen
        self._live = list(foreign.all)
        self._standing = set()
        self._in_place = {}
        self._plan = None

    def made_instead(self, task_id: str, failed: CallState, tool: ToolSpec) -> Instead | None:
        """What another task has made in place of a failed call of this tool, or of one that does the same."""
        place = task_id, tool.id
        if place not in self._in_place:
            self._in_place[place] = InPlace(self.others[task_id], tool, self.resolve)
        return self._in_place[place].of(failed)

    def maker(self, key: CallKey) -> Had | None:
        """Who has made this call, where it was another task."""
        return self._foreign.makers.get(key)

    def only_waits(self, one: Had) -> bool:
        """True if this call of another was not made, and is in doubt for others that are like it: those tell by themselves."""
        likes = self.others[one.task_id].waits_for_likes(one.call)
        return bool(likes) and all(map(self._is_known, likes))

    def _is_known(self, key: CallKey) -> bool:
        """True if a log that is there has this call."""
        every = (self.mine, *self.others.values())
        return any(key in state.took_effect or state.latest_try(key) is not None for state in every)

    def tries(self, call: CallState) -> int:
        """How often others have tried the call, as far as their logs tell."""
        every = (one for state in self.others.values() for one in state.made.get(call.tool_id, ()))
        return len({one.started for one in every if one.key == call.effect_key})

    def numbers_before(self, base: str, at: float) -> set[int]:
        """Which of the like calls others had made by then."""
        made = (one for one in self._foreign.bases.get(base, ()) if one.known_at <= at)
        return {int(one.call.key.rpartition(".")[2]) for one in made}

    def by_others(self) -> list[Had]:
        """The effects of others that are no part of this task."""
        return [one for one in self._foreign.all if not self.mine.has_had(one.call.key)]

    def yet_to_have(self, effects: Sequence[Had], but_for: StepId) -> set[CallKey]:
        """Which of these like effects of others steps of the plan here, others than this, are yet to have: they state them with the very values
        that tell them from others. What nobody knows yet may be about somebody else."""
        self._look_at_plan()
        return yet_to_have(effects, lambda one: self._rooms(one, but_for))

    def _rooms(self, one: Had, but_for: StepId) -> dict[StepId, int]:
        """How many such effects the other steps are yet to have."""
        if self._stated is None:
            self._stated = stated_by(
                [step.step for step in self.mine.steps.values()], self.mine, self.resolve
            )
        tool, steps = self.resolve(one.call.tool_id), self.mine.steps
        if tool is None:
            return {}
        text = unique_text(tool, one.call.parameters)
        return {
            name: room(steps[name], times, tool, text)
            for name, times in self._stated.get(text, {}).items()
            if name != but_for and not steps[name].closed
        }

    def why_not(self, step: StepState, slot: Slot, key: CallKey, made: Had) -> str:
        """Why what another task has made does not stand for the call of this step; empty if it does."""
        self._used, self._here = {}, key
        what = f"task {made.task_id!r} has made this call"
        end = "or set `repeat: true` with its `repeat_reason`"
        waited = [Had(self.mine.task_id, call) for call in self._waited_for(step, slot)]
        gone = [Had(self.mine.task_id, call) for call in self._of_gone()]
        for one in waited:
            if self._at(one) > made.call.started and not self._was_so(one, made):
                return (
                    f"{what}, before {one.told}, which this step waits for: leave it out if what was done counts, do not let it wait for "
                    f"that, {end}"
                )
        for one in gone:
            if self._at(one) > made.call.started and not (
                self._stands_beside(one, made) or self._was_so(one, made)
            ):
                return f"{what}, before {one.told} of an earlier plan here: leave it out if what was done counts, {end}"
        came = [*((one, False) for one in waited), *((one, True) for one in gone)]
        others = (one for one in self._ended_by(made.call.started) if one.call.key != made.call.key)
        between = [one for one in others if came and not self._is_mine(one, made)]
        for then, is_gone in came if between else ():
            since = self._at(then)
            after = (
                one
                for one in between
                if since <= one.call.started and not (is_gone and self._are_beside(one, made))
            )
            if (found := next((one for one in after if self._changes(one, then)), None)) is not None:
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
        self._used, self._here = {}, key
        made = self.maker(key)
        found = self._undone(made) if made is not None else None
        return "" if found is None else f"task {found.task_id!r} in {found.told}"

    def why_not_after(self, step: StepState) -> str:
        """Why the step has no effect now, as one that it comes after was taken back since by another task; empty if it may have one."""
        self._used, self._here = {}, ""
        if next(self._ended_by(float("inf")), None) is None:
            return ""
        for call in self._waited_for(step):
            if call.key in self._standing:
                continue
            made = self.maker(call.effect_key) or Had(self.mine.task_id, call)
            if (found := self._undone(made, back=True)) is not None:
                return (
                    f"it comes after {made.told}, and {found.told} of task {found.task_id!r} was about the same after that and is no part of "
                    "this task: leave it out if what was done counts, or have it tried again if it is wanted all the same"
                )
            self._standing.add(call.key)
        return ""

    # ── what this task comes after ──

    def _of_gone(self) -> Iterator[CallState]:
        """The effects of the steps that the plan has no more: they came before all that it has."""
        return (call for one in self.mine.left_out for call in one.every_call() if _is_had(call))

    def _stands_beside(self, one: Had, made: Had) -> bool:
        """True if an effect that was had here is another task's, too, and stands beside the made one there: it is no part of how things stood here
        that the made one did not find."""
        maker = self._foreign.who_made(one.call)
        return are_of_two(one, made, self.resolve) if maker is None else self._are_beside(maker, made)

    def _are_beside(self, one: Had, made: Had) -> bool:
        """True if nothing in what others have done makes one of these effects come after the other: they are of two items of a list, of steps
        or actions of one that do not wait for each other, or of two plans and about two things."""
        mine, theirs = one.call, made.call
        state = self.others.get(one.task_id)
        if (
            state is not None
            and one.task_id == made.task_id
            and {mine.step_id, theirs.step_id} <= state.steps.keys()
        ):
            if mine.step_id == theirs.step_id:
                step, slots = state.steps[mine.step_id].step, (mine.slot, theirs.slot)
                return mine.slot.item != theirs.slot.item or are_beside(
                    step, *(slot.action_id for slot in slots)
                )
            upstream = state.graph().upstream
            return mine.step_id not in upstream(theirs.step_id) and theirs.step_id not in upstream(
                mine.step_id
            )
        return are_of_two(one, made, self.resolve)

    def _waited_for(self, step: StepState, slot: Slot | None = None) -> Iterator[CallState]:
        """The effects of the steps that it waits for; and of the actions of its own that a call of it does, of the same item."""
        steps = self.mine.steps
        waited = (steps[name] for name in self.mine.graph().upstream(step.step.step_id) if name in steps)
        before = before_inside(step.step, slot.action_id) if slot is not None else ()
        own = (
            call
            for one, call in step.calls.items()
            if slot is not None and one.item == slot.item and one.action_id in before
        )
        return filter(_is_had, chain((call for one in waited for call in one.calls.values()), own))

    def _at(self, one: Had) -> float:
        """When the effect was had, whoever had it."""
        if (maker := self.maker(one.call.effect_key)) is not None:
            return maker.ended
        entry = self.mine.ledger.entries.get(one.call.key) if one.call.reused else None
        return entry.at if entry is not None else one.ended

    def _was_so(self, one: Had, made: Had) -> bool:
        """True if it is `repeatable` and had set by then what it sets, which the other has left so: it changed nothing after that."""
        if one.call.effect != "repeatable":
            return False
        mine = one.done(self.resolve)
        if mine.things.meet(made.done(self.resolve).things):
            return False
        at = made.call.started
        own = (Had(self.mine.task_id, call) for call in effects_of(self.mine))
        every = sorted((*own, *self._foreign.all), key=lambda other: other.ended)
        for other in reversed(every):
            if other.ended > at:
                continue
            if other.deed.base == mine.base:
                return True
            if other.call.tool_id == mine.tool_id and same_thing(other.done(self.resolve), mine):
                return False
        return False

    # ── what others have done ──

    def _ended_by(self, at: float) -> Iterator[Had]:
        """The effects of others that are no part of this task and had ended by then."""
        had = self.mine.has_had
        if sum(had(one.call.key) for one in islice(self._live, _FEW)) > _FEW // 2:
            self._live = [one for one in self._live if not had(one.call.key)]
        for one in self._live:
            if one.ended > at:
                return
            if not had(one.call.key):
                yield one

    def _is_mine(self, one: Had, made: Had) -> bool:
        """True if this task is about to have this effect by its plan, beside the made one."""
        self._look_at_plan()
        if id(one) not in self._written:
            self._written[id(one)] = self._as_written(one)
        if (same := self._written[id(one)]) is not None and self._is_open(same, made):
            return True
        theirs = self.others[one.task_id].steps.get(one.call.step_id)
        then = theirs.step if theirs is not None else None
        return any(
            may_make(step.step, one, then, made, self.resolve)
            for step in self._writers.may_make(one)
            if self._is_open(step, made)
        )

    def _as_written(self, one: Had) -> StepState | None:
        step, theirs = (
            self.mine.steps.get(one.call.step_id),
            self.others[one.task_id].steps.get(one.call.step_id),
        )
        if step is None or theirs is None or not is_written_so(step.step, theirs.step):
            return None
        return step if self._writers.calls(step, one.call.tool_id) else None

    def _look_at_plan(self) -> None:
        plan = self.mine.plan
        if self._plan is plan and plan is not None:
            return
        self._plan, self._written, self._stated = plan, {}, None
        self._writers = Writers(self.mine.steps.values(), self.resolve)

    def _undone(self, made: Had, *, back: bool = False) -> Had | None:
        """What was done since about what this call has done, and is no part of this task. `back`: only what takes it back."""
        had = self.mine.has_had
        for one in self._foreign.about(made, subject_of(made, self.resolve)):
            if one.call.started < made.ended or one.call.key == made.call.key or had(one.call.key):
                continue
            if back and not takes_back(one, made, self.resolve):
                continue
            if self._is_mine(one, made):
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
        same = is_of_one_thing(one, made, self.resolve, is_used=lambda: self._is_used(made.call.key))
        if state is None or mine is None or not known:
            return same
        named = made.call.step_id, made.call.slot.action_id
        if not same and all(ref.head not in named for ref in references_of(mine.step)):
            return False
        # else the plan has them side by side
        if mine is theirs:
            slot, then = one.call.slot, made.call.slot
            return slot.item == then.item and then.action_id in before_inside(mine.step, slot.action_id)
        return made.call.step_id in state.graph().upstream(one.call.step_id)

    def _is_used(self, key: CallKey) -> bool:
        """True if something here is made of what this call has made."""
        if key not in self._used:
            waits = self.mine.graph().needed_by
            self._used[key] = any(waits.get(name) for name in self._steps_of(key))
        return self._used[key]

    def _steps_of(self, key: CallKey) -> Iterator[StepId]:
        """The steps here that make this call."""
        for name, step in self.mine.steps.items():
            if any(self._is_this(call, key) for call in step.calls.values()):
                yield name

    def _is_open(self, step: StepState, made: Had) -> bool:
        """True if the step may have a further effect beside the made one."""
        if step.closed:
            return False
        several = step.step.for_each or step.step.actions
        return bool(several) or not any(self._is_this(call, made.call.key) for call in step.calls.values())

    def _is_this(self, call: CallState, effect: CallKey) -> bool:
        """True if the call has this effect, or is asked about, whether it has."""
        return call.effect_key == effect or call.key == self._here


_FEW = 32
"""Effects at the front by which it shows whether many of them have been had here, too."""


def _is_had(call: CallState) -> bool:
    return call.effect != "reads" and call.status == "succeeded"


def _of(one: Had, made: Had) -> str:
    return "that task" if one.task_id == made.task_id else f"task {one.task_id!r}"
