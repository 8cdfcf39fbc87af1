"""What recovery has done so far: for each step that failed, and for each round."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from replan.core.ids import split_key
from replan.core.people import Said, Word
from replan.core.reflection import RETRIES, OverallReflection, SuggestedAction
from replan.core.types import JsonObject, StepId, ToolId

if TYPE_CHECKING:
    from replan.core import events as e
    from replan.core.progress import StepState
    from replan.core.slots import Place, Slot


class Override(NamedTuple):
    """What a call is made with in place of what the plan says."""

    tool_id: ToolId | None = None
    """None: the planned tool."""
    parameters: JsonObject = {}
    whole: bool = False
    """True: these are all the parameters; False: they go over the planned ones."""
    without: tuple[str, ...] = ()
    """Planned ones that are left out."""


@dataclass(slots=True)
class Reading:
    """What was read to find out whether a call took effect."""

    call_key: str
    tool_id: ToolId
    parameters: JsonObject
    output: str = ""
    """As JSON text; empty: it gave nothing yet, or failed."""
    error: str = ""
    at: float = 0.0
    """When it was made."""


@dataclass(slots=True)
class Healing:
    """The recovery of one step, over all of its lives: retries, repairs, and rounds that keep it."""

    reflected: list[e.StepReflected] = field(default_factory=list)
    overrides: dict[Slot, Override] = field(default_factory=dict)
    pending: dict[Slot, SuggestedAction] = field(default_factory=dict)
    """Decided, and not begun."""
    repairs: int = 0
    """Those of the steps whose place it has taken included."""
    repairs_before: int = 0
    """Those of these steps alone."""
    repaired_at: int = 0
    """How many failures there were at the last repair."""
    readings: dict[Slot, list[Reading]] = field(default_factory=dict)
    earlier: list[e.StepReflected] = field(default_factory=list)
    """Failed tries of the steps of earlier plans whose place this one has taken."""
    rewritten: list[e.StepReflected] = field(default_factory=list)
    """Failures after which the step really was written anew."""

    _of: dict[Slot, list[e.StepReflected]] = field(default_factory=dict)
    _bases: set[str] = field(default_factory=set)

    def heir(self) -> Healing:
        """What a step of a later plan begins with that takes this one's place: all that was tried, nothing decided."""
        return Healing(
            repairs=self.repairs,
            repairs_before=self.repairs,
            earlier=[*self.earlier, *self.failures()],
            rewritten=list(self.rewritten),
            _bases=set(self._bases),
        )

    def take(self, event: e.StepReflected) -> None:
        """One more diagnosis."""
        self.reflected.append(event)
        self._of.setdefault(event.slot, []).append(event)
        if event.fresh and event.base:
            self._bases.add(event.base)

    def with_failure(self, event: e.StepReflected) -> Healing:
        """The same with one more failure, which is about to be decided upon; shares what it can."""
        return replace(
            self,
            reflected=[*self.reflected, event] if self.repairs else [event],
            _of={event.slot: [*self._of.get(event.slot, ()), event]},
            _bases=self._bases | {event.base} if event.fresh and event.base else self._bases,
        )

    def failures(self, slot: Slot | None = None) -> list[e.StepReflected]:
        """One for each failed try; of one call of the step, or of all."""
        known = self.reflected if slot is None else self._of.get(slot, ())
        return [one for one in known if one.fresh]

    def slots(self) -> list[Slot]:
        """The calls that have failed."""
        return list(self._of)

    def latest(self, slot: Slot) -> e.StepReflected | None:
        """The latest diagnosis of this call."""
        known = self._of.get(slot)
        return known[-1] if known else None

    def settled(self, slot: Slot) -> int:
        """How often this call's outcome was settled by a reading."""
        return sum(one.action.type == "settle_outcome" for one in self._of.get(slot, ()))

    def retries(self, slot: Slot) -> int:
        """How many tries of layer 1 this call has had, in earlier plans too."""
        known = (*self._before(slot), *self._of.get(slot, ()))
        return sum(one.action.type in RETRIES for one in known)

    def tried(self) -> set[str]:
        """The contents (`ids.call_base`) that were tried for this step and failed."""
        return self._bases

    def tools_tried(self, slot: Slot) -> set[ToolId]:
        return {one.tool_id for one in (*self._before(slot), *self.failures(slot))}

    def repeated(self, slot: Slot) -> bool:
        """True if some error of this call has been seen twice; the first time may have been in an earlier plan."""
        seen = [one.signature for one in self.failures(slot)]
        return len(seen) != len(set(seen)) or any(one.signature in seen for one in self._before(slot))

    def _before(self, slot: Slot) -> list[e.StepReflected]:
        """The failures of earlier plans that this call follows: those of the same item."""
        return [one for one in self.earlier if one.index == slot.item]

    def unmended(self) -> bool:
        """True if the last repair changed nothing: the same error came again after it."""
        failures = self.failures()
        before = {one.signature for one in (*self.earlier, *failures[: self.repaired_at])}
        return self.repairs > 0 and any(one.signature in before for one in failures[self.repaired_at :])

    def restart(self, keep: Collection[Slot] = ()) -> None:
        """The step begins anew as planned but for the calls to `keep`; what has been tried stays known."""
        self.overrides = {slot: one for slot, one in self.overrides.items() if slot in keep}
        self.pending.clear()
        self.readings.clear()


@dataclass(slots=True)
class RoundNote:
    """One round in short."""

    number: int
    strategy: str = ""
    """How its plan came about; empty for the first."""
    reason: str = ""
    plan_version: int = 0
    changes: str = ""
    """What the plan changed, in words."""
    signatures: set[str] = field(default_factory=set)
    """Every failure of the round, also those that the judge named."""
    news: bool = False
    """Something failed that had not failed before in this task."""
    score: float | None = None
    better: bool = False
    """Judged better than every round before."""
    moved: bool = False
    """Its plan was run before and gave something else then: a poll that goes on."""
    outside: bool = False
    """What failed was out of our reach."""
    outcome: str = ""


class Edited(NamedTuple):
    """A call as a person has changed it."""

    tool_id: ToolId
    parameters: JsonObject
    """All of them, as they may be seen."""
    seals: dict[str, str]
    """Of those that were not shown and not changed."""


@dataclass(slots=True)
class Recovery:
    """The recovery of a whole task."""

    rounds: list[RoundNote] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Every signature of this task."""
    best: float | None = None
    """The best score so far."""
    prints: dict[str, bool] = field(default_factory=dict)
    """Plans that have been tried, by what they mean; True: what they failed of was out of our reach."""
    results: dict[str, list[str]] = field(default_factory=dict)
    """Whole plans, by their print: what each run of one gave, as a digest."""
    began: tuple[str, ...] = ()
    """The prints of the plan as it began, if it is not the first."""
    labels: dict[StepId, str] = field(default_factory=dict)
    """Of steps that later plans have left out, what they meant (`core.fingerprint`)."""
    dropped: dict[StepId, StepState] = field(default_factory=dict)
    """Steps that a later plan has left out without their having succeeded."""
    replaced: dict[StepId, StepId] = field(default_factory=dict)
    """Of those, the step of a later plan that took the place of each (`core.lineage`)."""
    reflections: int = 0
    replans: int = 0
    retries: int = 0
    repairs: int = 0
    evaluation: e.EvaluationCompleted | None = None
    """Of the round before this one."""
    requests: dict[str, e.ApprovalRequested] = field(default_factory=dict)
    """Approvals asked for, by their id."""
    asked: set[str] = field(default_factory=set)
    """The keys of the calls that approvals were asked for."""
    approvals: dict[str, e.ApprovalResolved] = field(default_factory=dict)
    """What was said, by call key."""
    edited: dict[Place, Edited] = field(default_factory=dict)
    """What a person wants to be called instead."""
    latest: dict[Place, str] = field(default_factory=dict)
    """The approval that was asked for last, by the call's place."""
    questions: dict[str, e.QuestionAsked] = field(default_factory=dict)
    answers: dict[str, e.QuestionAnswered] = field(default_factory=dict)
    reflection: OverallReflection | None = None
    """The latest of the task."""
    said: list[Said] = field(default_factory=list)
    """What people have said, in its order."""
    word: Word = ""
    """Set by the latest answer, if that decides by itself."""
    warned: set[str] = field(default_factory=set)
    """Limits of which it was told that most is used."""

    def note(self, number: int) -> RoundNote:
        """The note of this round."""
        if not self.rounds or self.rounds[-1].number != number:
            self.rounds.append(RoundNote(number))
        return self.rounds[-1]

    def open_approvals(self) -> list[e.ApprovalRequested]:
        return [one for one in self.requests.values() if one.call_key not in self.approvals]

    def use_up_answers(self, call_key: str) -> None:
        """A call's outcome is settled: what was asked and said about it holds for no later doubt."""
        for name in [name for name, one in self.questions.items() if one.call_key == call_key]:
            del self.questions[name]
            self.answers.pop(name, None)

    def open_questions(self) -> list[e.QuestionAsked]:
        return [one for one in self.questions.values() if one.question_id not in self.answers]


def base_of(call_key: str) -> str:
    """What was called with what, whichever of the like calls it was."""
    return split_key(call_key)[0]
