"""What was planned and not done, as it is told, and what may make it good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replan.core.evaluation.effects_had import Lost
from replan.core.state.progress import StepState
from replan.core.types import StepId


class Undone(NamedTuple):
    """A step that was planned, and in whose place nothing was done, or something that may be another thing."""

    step: StepState
    lost: Sequence[Lost]
    """The effects that it was to have; none: it was to read."""
    since: int
    """The version of the plan from which on something may make up for it."""
    what: str
    """What became of it, in words."""
    reason: str = ""
    """Why a reflection has left out this very step, where one has."""
    stand_in: bool = False
    """The step has had an effect in its place itself, by another tool: whoever judges says whether that is the same thing."""
    allowed: bool = False
    """The plan has said beforehand that it does without such items: by steps that will do."""
    first: int = 0
    """From which version on a judge may say that something made up for it, where earlier plans were without it too; 0: as `since`."""
    also: tuple[StepId, ...] = ()
    """The steps of those plans: what is said of one of them is said of this."""

    instead: tuple[StepId, ...] = ()
    """Steps that by the word of their plan stand for all of it, and have had as many effects of the same tool."""

    unsaid: str = ""
    """What might stand for it, where only a word can tell, in words; empty if there is nothing."""

    @property
    def told_alone(self) -> str:
        """What became of it, where nobody judges what may stand for it."""
        return f"{self.what}; {self.unsaid}" if self.unsaid else self.what

    @property
    def will_do(self) -> bool:
        """True if nobody need say more of it: what became of it is told, and costs nothing."""
        return self.stand_in or self.allowed or bool(self.instead)

    def told_with(self, before: Undone) -> Undone:
        """The same, where it is what an earlier plan was without too, and is told of this step alone."""
        return self._replace(
            allowed=self.allowed and before.allowed,
            first=min(self.first or self.since, before.first or before.since),
            also=tuple(dict.fromkeys([*self.also, *before.also, before.step.step.step_id])),
        )

    @property
    def effect(self) -> bool:
        """It was to have an effect; else it was to read."""
        return bool(self.lost)


class LeftOut(NamedTuple):
    """What was planned and not done, and what may still make it good."""

    undone: list[Undone]
    free: Mapping[StepId, list[int]]
    """The effects of each step that stand for no other, as the versions of the plan that they came with."""
    steps: Mapping[StepId, StepState]
    own: Mapping[StepId, list[int]]
    """The effects that each step has had itself."""
