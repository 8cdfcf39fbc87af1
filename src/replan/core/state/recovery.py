"""What recovery has done for a whole task, so far: each round, and what people were asked and have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replan.core import events as e
from replan.core.calls.site import Place
from replan.core.ids import base_of, canonical, digest
from replan.core.reflection import OverallReflection
from replan.core.state.human_input import Said, Word
from replan.core.state.progress import CallState, StepState
from replan.core.types import JsonObject, StepId, ToolId


@dataclass(slots=True)
class RoundNote:
    """One round in short."""

    number: int
    strategy: str = ""
    """How its plan came about; empty for the first."""
    reason: str = ""
    why: str = ""
    """The reason of its strategy alone."""
    plan_version: int = 0
    changes: str = ""
    """What the plan changed, in words."""
    signatures: set[str] = field(default_factory=set)
    """Every failure of the round, also those that the judge named."""
    news: bool = False
    """Something failed that had not failed before in this task; or it was a first part that has brought something."""
    got_on: bool = False
    """It was a first part that has had an effect, or has read what nobody had asked for before."""
    score: float | None = None
    better: bool = False
    """Judged better than every round before."""
    moved: bool = False
    """Its plan was run before and gave something else then, or one of its readings did: a poll that goes on."""
    stirred: bool = False
    """The same, and yet something has failed: a new token, or another time of day, that has mended nothing."""
    outside: bool = False
    """What failed was out of our reach."""
    heard: bool = False
    """A person has said how to go on after it: its plan may be right now."""
    outcome: str = ""
    failed: list[e.StepReflected] = field(default_factory=list)
    """Every failed try that was reflected on, in its order."""

    def take_part(self, calls: Sequence[CallState]) -> bool:
        """True if the first part that has just ended has brought something. `calls`: those that were made in the task.

        An effect is something new, and a reading that was not made before. One that was made before is if it gives
        something else now; that is noted as a poll.
        """
        own = [call for call in calls if call.plan >= self.plan_version]
        known = {base_of(call.key) for call in calls if call.plan < self.plan_version}
        self.got_on = any(call.effect != "reads" or base_of(call.key) not in known for call in own)
        if not self.got_on and len(calls) <= _MOST_COMPARED:
            read = {_read(call) for call in calls if call.plan < self.plan_version}
            self.moved = any(_read(call) not in read for call in own)
        brought = self.got_on or self.moved
        self.news = self.news or brought
        return brought


_MOST_COMPARED = 200
"""Calls that are held against each other: of more, the other bounds have to do."""


def _read(call: CallState) -> tuple[str, str]:
    """What was read, and what it gave."""
    kept = call.output.artifact if call.output is not None else None
    value = call.output.value if call.output is not None else None
    return base_of(call.key), digest(
        canonical(value) if kept is None else f"{kept.size}{kept.head}{kept.tail}"
    )


class Unplanned(NamedTuple):
    """What an earlier plan has said is still to be planned, of which the plan of now says nothing."""

    what: str
    asked: bool
    """The planner was asked for it, and has planned nothing."""


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
    deeds: dict[str, int] = field(default_factory=dict)
    """The same plans: how many deeds the ledger had when each was given up last."""
    parts: set[str] = field(default_factory=set)
    """First parts that have brought something, by what they mean."""
    barren: set[str] = field(default_factory=set)
    """Plans of rounds that were no better than those before, by what they mean, however often they say `repeat`."""
    results: dict[str, list[str]] = field(default_factory=dict)
    """Plans, by what they mean (all of one, or what of it was not done): what each run of one gave, as a digest."""
    began: tuple[str, ...] = ()
    """The prints of the plan as it began, if it is not the first."""
    labels: dict[StepId, str] = field(default_factory=dict)
    """Of steps that later plans have left out, what they meant (`core.plan.fingerprint`)."""
    dropped: dict[StepId, StepState] = field(default_factory=dict)
    """Steps that a later plan has left out without their having succeeded."""
    replaced: dict[StepId, StepId] = field(default_factory=dict)
    after_more: frozenset[int] = frozenset()
    """The versions of the plan that came after one which had left more to be planned."""
    """Of those, the step of a later plan that took the place of each (`core.plan.lineage`)."""
    in_part: tuple[int, dict[str, list[StepId]]] | None = field(default=None, compare=False, repr=False)
    """What those of them have done that failed at other calls (`core.recovery.in_part`), as of this version of the plan."""
    unplanned: Unplanned | None = None
    reflections: int = 0
    replans: int = 0
    retries: int = 0
    repairs: int = 0
    evaluation: e.EvaluationCompleted | None = None
    """Of the round before this one; or of this one, where it is `outdated`."""
    outdated: bool = False
    """A person has spoken since this round was judged."""
    requests: dict[str, e.ApprovalRequested] = field(default_factory=dict)
    """Approvals asked for, by their id."""
    asked: dict[str, e.ApprovalRequested] = field(default_factory=dict)
    """The latest approval that was asked for, by the key of its call."""
    approvals: dict[str, e.ApprovalResolved] = field(default_factory=dict)
    """What was said, by call key."""
    refused_in: int = 0
    """The version of the plan in which a person first said no to an effect; 0: nobody has."""
    edited: dict[Place, Edited] = field(default_factory=dict)
    """What a person wants to be called instead."""
    latest: dict[Place, str] = field(default_factory=dict)
    """The approval that was asked for last, by the call's place."""
    expired: set[str] = field(default_factory=set)
    """Approvals that nobody has answered in time, by their id."""
    lapsed: dict[Place, str] = field(default_factory=dict)
    """The calls of the plan that were not made as nobody had answered in time: their keys, by their place."""
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

    def hear(self, said: Said) -> None:
        """A person has spoken: with that, what was tried before may come out otherwise."""
        self.said.append(said)
        self.prints.clear()
        self.parts.clear()
        self.barren.clear()

    def note(self, number: int) -> RoundNote:
        """The note of this round."""
        if not self.rounds or self.rounds[-1].number != number:
            self.rounds.append(RoundNote(number))
        return self.rounds[-1]

    def open_approvals(self) -> list[e.ApprovalRequested]:
        return [one for key, one in self.asked.items() if key not in self.approvals]

    def use_up_answers(self, call_key: str) -> None:
        """A call's outcome is settled: what was asked and said about it holds for no later doubt."""
        for name in [name for name, one in self.questions.items() if one.call_key == call_key]:
            del self.questions[name]
            self.answers.pop(name, None)

    def open_questions(self) -> list[e.QuestionAsked]:
        return [one for one in self.questions.values() if one.question_id not in self.answers]


@dataclass(slots=True)
class Reviews:
    """How it stands with plans that wait for a person's yes: the latest request, and what has come of it."""

    asked: e.PlanReviewRequested | None = None
    said: e.PlanReviewed | None = None
    """To the latest request, and only the first that was."""
    expired: bool = False
    """Nobody has answered it in time."""
    agreed: int = 0
    """The version of the plan that a person has agreed to last."""

    def open(self) -> e.PlanReviewRequested | None:
        """The request that waits for its answer."""
        return self.asked if self.said is None and not self.expired else None

    def ask(self, asked: e.PlanReviewRequested) -> None:
        self.asked, self.said, self.expired = asked, None, False
