"""What the words of a new plan show to be done already: it is asked with the plan, before anything of it runs.

What only shows when its references are read is asked then (`changes`, `restated`, `made_instead`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replan.core.again.changes import by_whom, failed_before, made_before, maker_of, told_behind
from replan.core.again.consent import planned_too_often
from replan.core.again.counterparts import Done, planned_by_others, unsaid
from replan.core.again.planned_calls import Call, PlannedCalls
from replan.core.again.sessions import told_ended
from replan.core.again.undone import Undone, told_undone
from replan.core.again.unique import planned_already, same_effects
from replan.core.calls.name_sets import NameSet
from replan.core.calls.site import Slot, items_in_words
from replan.core.calls.telling import Telling
from replan.core.ids import base_of
from replan.core.plan.constant import ConstantCall
from replan.core.plan.graph import Graph
from replan.core.recovery.in_part import of_this_alone
from replan.core.references.refs import has_references
from replan.core.state.made_instead import mended
from replan.core.state.restated import Planned, by_readings, told_again
from replan.core.state.task import State, ids_of
from replan.core.state.written import Written, words_of
from replan.core.types import JsonObject, Step, StepId, ToolSpec


@dataclass(slots=True)
class PlannedAgain:
    """The new steps of a plan beside what is done in the task."""

    state: State
    new: Collection[Step]
    steps: Collection[Step]
    """All steps of the plan, those that stay included."""
    graph: Graph
    constants: Mapping[StepId, ConstantCall]
    resolve: Callable[[str], ToolSpec | None]
    goes_on: bool
    """The plan goes on from a first part."""
    told: Collection[StepId] = ()
    """Steps that are told already to make a call twice: as they are written, they are like another one."""
    _wrote: Written = field(init=False)
    _effects: NameSet = field(init=False)
    """The new steps, and their actions, that have an effect which counts each time."""
    _since: Undone | None = field(default=None, init=False, repr=False)
    _acts: dict[StepId, tuple[Call | None, list[Call]]] = field(default_factory=dict, init=False)
    """Of each step: a call that is an effect for sure, and those that set again what was set before."""

    def __post_init__(self) -> None:
        self._wrote = self._written()
        self._effects = self._wrote.those(
            name
            for step in self.new
            if any(tool is not None and tool.effect == "once" for _, tool in self._named(step))
            for name in ids_of(step)
        )

    def asked(self) -> Iterator[str]:
        """One text for each step that has to say what it means."""
        made = PlannedCalls(self.state, self.new, self.constants, self.resolve)
        calls = {step.step_id: list(made.of(step)) for step in self.new}
        ended = told_ended(
            self.state,
            calls,
            lambda: (one for step in self.new for one in made.of(step, readings=True)),
            self.resolve,
        )
        wrote = self._wrote
        often = Counter(one.base for mine in calls.values() for one in mine if one.base)
        volatile = wrote.those(
            name
            for step in self.new
            for name, tool in self._named(step)
            if tool is not None and tool.effect == "reads" and tool.volatile
        )
        for name, mine in calls.items():
            once = [
                one for one in mine if one.tool.effect == "once" and not one.again and not self._is_kept(one)
            ]
            if self.goes_on:
                texts = self._before(name, once, calls)
            else:
                texts = list(filter(None, [self._behind(name, once, calls) or self._undone(once)]))
            texts = texts or list(filter(None, [ended.get(name)]))
            if texts := texts or self._too_often(name, mine, calls, often, wrote):
                yield from texts
                continue
            told = {one.slot: text for one in once if often[one.base] == 1 and (text := self._instead(one))}
            told = told or {
                one.slot: text
                for one in once
                if (text := self._had(one) or self._restated(one, wrote, volatile))
            }
            told = told or {one.slot: text for one in once if (text := self._done_by_others(one, wrote))}
            if told:
                slot, text = next(iter(told.items()))
                yield f"step {name!r}{_places(list(told))}: {of_this_alone(once[0].step, slot)}{text}"

    # ── what is asked ──

    def _before(
        self, name: StepId, once: Sequence[Call], calls: Mapping[StepId, Sequence[Call]]
    ) -> list[str]:
        """A part that makes calls which were made before. Of a list that may go on with a rest, only where it comes after an effect of
        its own part, or where all are such and their step is gone."""
        done = [one for one in once if one.base and self.state.ledger.is_done(one.base)]
        if not done or name in self.told:
            return []
        if once[0].step.for_each is None:
            return [self._made_before(name, [one]) for one in done]
        effects = self._effects_before(name, calls)
        behind = [one for one in done if self._comes_after(one, effects)]
        if not behind and len(done) < len(once):
            return []
        makers = [maker_of(self.state, one.tool.id, one.base) for one in done]
        gone = [one for one, maker in zip(done, makers, strict=True) if maker not in self.state.steps]
        return [self._made_before(name, told)] if (told := behind or gone) else []

    def _made_before(self, name: StepId, told: Sequence[Call]) -> str:
        first = told[0]
        where = f"step {name!r}{_places([one.slot for one in told])}"
        if first.slot.item is not None:
            where += f": {of_this_alone(first.step, first.slot)}it"
        return made_before(where, first.tool.id, by_whom(self.state, first.tool.id, first.base))

    def _effects_before(
        self, name: StepId, calls: Mapping[StepId, Sequence[Call]]
    ) -> list[tuple[Call | None, list[Call]]]:
        """What the steps that the plan puts before this one do."""
        upstream = [other for other in self.graph.upstream(name) if other in calls]
        for other in upstream:
            if other not in self._acts:
                done = self.state.ledger.is_done
                known = [one for one in calls[other] if one.base and not one.step.when]
                new = next((one for one in known if one.again or not done(one.base)), None)
                self._acts[other] = new, [one for one in known if one.tool.effect == "repeatable"]
        return [self._acts[other] for other in upstream]

    def _comes_after(self, one: Call, before: Sequence[tuple[Call | None, list[Call]]]) -> Call | None:
        """One of the effects before it that comes after the time when it was made."""
        made = self.state.ledger.order().get(one.base)
        if not made:
            return None
        for new, sets in before:
            if new is not None:
                return new
            for other in sets:
                if self.state.ledger.was_otherwise(other.base, made[-1]):
                    return other
        return None

    def _too_often(
        self,
        name: StepId,
        mine: Sequence[Call],
        calls: Mapping[StepId, Sequence[Call]],
        often: Mapping[str, int],
        wrote: Written,
    ) -> list[str]:
        """A call that says `repeat` and that nobody has agreed to make so often. Of several like ones that shows when they are called."""
        if name in self.state.steps:
            return []  # what it has had itself stays its own
        found: dict[Slot, str] = {}
        for one in mine:
            if not one.again or one.tool.effect != "once" or often[one.base] != 1 or one.step.when:
                continue
            acts = self.goes_on and any(other in calls for other in self.graph.upstream(name))
            alike = {one.base, *(base_of(other.call.key) for other in self._by_others(one, wrote))}
            if (told := self._told(one)) is not None:
                alike.update(same_effects(self.state, one.tool, told))
            if text := planned_too_often(
                self.state, one.tool, alike, self.resolve, goes_on=self.goes_on, acts=acts
            ):
                found[one.slot] = text
        if found and mine[0].step.for_each is not None:
            return [f"step {name!r}{_places(list(found))}: {next(iter(found.values()))}"]
        return [f"step {name!r}{_places([slot])}: {text}" for slot, text in found.items()]

    def _behind(self, name: StepId, once: Sequence[Call], calls: Mapping[StepId, Sequence[Call]]) -> str:
        """A done call that the plan puts behind an effect which comes after it. Of a list that shows later: it may go on with a rest;
        and what a step has had itself before it is due again stays its own."""
        order = self.state.ledger.order()
        done = [one for one in once if one.slot.item is None and not one.step.when and one.base in order]
        before = self._effects_before(name, calls) if done else ()
        for one in done:
            maker = maker_of(self.state, one.tool.id, one.base)
            if maker != name and (by := self._comes_after(one, before)) is not None:
                return told_behind(name, one.tool.id, maker, by.step.step_id, by.tool.id)
        return ""

    def _undone(self, once: Sequence[Call]) -> str:
        """A done call that was undone since, by what the plan neither keeps nor states again."""
        for one in once:
            if not one.base or one.step.when or not self.state.ledger.is_done(one.base):
                continue
            self._since = self._since or Undone(self.state, self.resolve, tuple(self.steps), self.graph)
            if (found := self._since.since(one.step.step_id, one.base)) is not None:
                return told_undone(one.step.step_id, *found)
        return ""

    def _is_kept(self, one: Call) -> bool:
        """True if its step stays as it is, which has had this effect itself in other words, and is made again for the rest alone."""
        known = self.state.steps.get(one.step.step_id)
        if known is None or not one.base or not known.calls_as(one.step):
            return False
        return bool(mended(known, (one.base,)))

    def _instead(self, one: Call) -> str:
        """A call that failed and that a later plan left out, making others of its tool."""
        if not one.base or self.state.ledger.is_done(one.base):
            return ""
        return failed_before(self.state, one.tool, (one.base,), self.state.plans + 1)

    def _had(self, one: Call) -> str:
        """An effect that was had, as its tool says by which of its parameters it is known, where all of these are values."""
        if not one.tool.unique_by or (one.base and self.state.ledger.is_done(one.base)):
            return ""
        told = self._told(one)
        return "" if told is None else planned_already(one.tool, told, self.state)

    def _told(self, one: Call) -> JsonObject | None:
        """The parameters of the call, where all is known of them that tells it from others."""
        written = one.written if one.known is None else one.known
        telling = Telling.of(one.tool)
        by_metadata = {*one.tool.parameters.get("required", ())} - written.keys() - telling.silent
        return None if by_metadata or has_references(list(telling.parts(written).values())) else written

    def _by_others(self, one: Call, wrote: Written) -> list[Done]:
        if not one.tool.counterparts:
            return []
        state, parts = self.state, self.state.restated.telling(one.tool).parts
        names = tuple(words_of(one.step, one.slot))
        forms = wrote.forms(one.step, state.plans + 1, one.slot, names, parts)
        if not all(form.cone.effects.isdisjoint(self._effects) for form in forms.values()):
            forms = {}  # what is told of another effect is another, too
        known = one.values if one.known is None else one.known
        return planned_by_others(
            state, one.step, one.slot, one.tool, known, forms, self.resolve, goes_on=self.goes_on
        )

    def _done_by_others(self, one: Call, wrote: Written) -> str:
        """A call that another tool has made, one that does the same."""
        if one.base and self.state.ledger.is_done(one.base):
            return ""
        return unsaid(one.step, one.slot, one.tool, self._by_others(one, wrote))

    def _restated(self, one: Call, wrote: Written, volatile: NameSet) -> str:
        """A done call whose references come to something else by now: by readings that are made anew, or an effect had once more."""
        made, restated = self.state.made.get(one.tool.id), self.state.restated
        if not made or one.tool.unique_by or (one.base and self.state.ledger.is_done(one.base)):
            return ""
        names, parts = tuple(words_of(one.step, one.slot)), restated.telling(one.tool).parts
        whole = wrote.forms(one.step, self.state.plans + 1, one.slot, names)
        forms = wrote.forms(one.step, self.state.plans + 1, one.slot, names, parts)
        if not all(form.cone.effects.isdisjoint(self._effects) for form in forms.values()):
            return ""  # what is told of another effect is another, too
        values = {name: value for name, value in parts(one.written).items() if not has_references(value)}
        call = Planned(forms, values, one.written, whole, ())
        silent = call.silent
        anew = [
            name
            for name, form in whole.items()
            if not form.cone.readings.isdisjoint(volatile)
            or (name in silent and (form.cone.again or not form.cone.effects.isdisjoint(self._effects)))
        ]
        if not (anew or silent or restated.telling(one.tool).silent) or (
            self.goes_on and by_readings(forms, values, one.tool)
        ):
            return ""  # only readings tell which one it is: that shows when they are made
        found = restated.find_planned(
            call._replace(anew=anew), one.tool, made, self.state.plans + 1, goes_on=self.goes_on
        )
        return "" if found is None else told_again(found, "may have another value by now")

    # ── how the plan is written ──

    def _written(self) -> Written:
        state = self.state
        here = {name: step for step in self.steps for name in ids_of(step)}
        new = {step.step_id for step in self.new}

        def words(name: str, version: int) -> Step | None:
            return here.get(name) or state.words_of(name, version)

        def only_reads(step: Step) -> bool:
            if step.step_id not in new:
                return state.restated.only_reads(step)
            return all(tool is not None and tool.effect == "reads" for _, tool in self._named(step))

        return Written(words, only_reads, state.restated.given)

    def _named(self, step: Step) -> list[tuple[str, ToolSpec | None]]:
        if not step.actions:
            return [(step.step_id, self.resolve(step.tool))]
        return [(one.action_id, self.resolve(one.tool)) for one in step.actions]


def _places(slots: Sequence[Slot]) -> str:
    """Which of a step's calls: only these are told, and only these are to be left out."""
    items = [slot.item for slot in slots if slot.item is not None]
    if items:
        return f", {items_in_words(sorted(set(items)))}"
    return f", {slots[0].words()}" if slots[0].action_id is not None else ""
