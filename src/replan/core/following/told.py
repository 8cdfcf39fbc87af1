"""Earlier tasks that a task follows, as they were read at its beginning: what they were, what they did, and what that gave.

It stands in the log of the task that follows them, so that nothing changes when they are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from pydantic import Field

from replan.core.references.refs import PARAMETERS, RESULT
from replan.core.types import Artifact, Frozen, StepId


class Kept(Frozen):
    """A value of an earlier task: as it is, or the artifact that holds it, which is this task's as well."""

    value: Any = None
    artifact: Artifact | None = Field(default=None, exclude_if=lambda value: value is None)
    masked: bool = Field(default=False, exclude_if=lambda value: not value)
    """A secret was cut out of it: what it was nobody knows any more."""
    files: tuple[Artifact, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Those that stand in it by their names."""
    missing: bool = Field(default=False, exclude_if=lambda value: not value)
    """It was read from a recording, which has only as much of it as is told."""


class PreviousStep(Frozen):
    """A step of an earlier task, as far as it got."""

    name: str
    """How references name it: by its id, unless that is a word of theirs."""
    step_id: StepId
    title: str = ""
    tool: str = ""
    """What was called; several with commas between."""
    status: str = "succeeded"
    effects: int = 0
    """How often it has had its effect; a reading has none."""
    in_doubt: int = 0
    """Of how many calls nobody knows whether they took effect."""
    calls: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Of several calls, what each was called with, in words."""
    parameters: Kept | None = None
    """Of its only call."""
    output: Kept | None = None
    why: str = ""
    """Why it has no output."""


class PreviousTask(Frozen):
    """An earlier task."""

    name: str
    """How references name it; empty for one that there is nothing to refer to of."""
    task_id: str
    description: str = ""
    left_out: int = Field(default=0, exclude_if=lambda value: not value)
    """Characters of the description that are left out at its end."""
    follows: str = Field(default="", exclude_if=lambda value: not value)
    """The words of the task that it has followed itself."""
    status: str = ""
    ended: float | None = None
    result: Kept | None = None
    why: str = ""
    """Why it has failed, or why nothing is known of it."""
    in_doubt: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Calls of which nobody knew at its end whether they took effect, each with what was read of it."""
    steps: tuple[PreviousStep, ...] = ()
    more_steps: int = Field(default=0, exclude_if=lambda value: not value)
    """How many steps are left out."""

    def values(self) -> Iterator[tuple[str, PreviousStep | None, Kept]]:
        """What can be referred to of it: how, whose it is, and what it is."""
        if not self.name:
            return
        if _there(self.result):
            yield f"{self.name}.{RESULT}", None, self.result
        for step in self.steps:
            if _there(step.output):
                yield f"{self.name}.{step.name}", step, step.output
            if _there(step.parameters):
                yield f"{self.name}.{step.name}.{PARAMETERS}", step, step.parameters

    def lacking(self) -> Iterator[tuple[str, str]]:
        """What cannot be referred to of it, and why."""
        if not self.name:
            return
        if self.result is not None and self.result.missing:
            yield f"{self.name}.{RESULT}", _MISSING
        elif self.result is None:
            why = self.why and f": {self.why}"
            yield f"{self.name}.{RESULT}", f"that task has given no answer ({self.status}){why}"
        for step in self.steps:
            if step.output is not None and step.output.missing:
                yield f"{self.name}.{step.name}", _MISSING
            elif step.output is None:
                why = step.why and f": {step.why}"
                yield f"{self.name}.{step.name}", f"that step has no output ({step.status}){why}"
            if step.parameters is None:
                yield (
                    f"{self.name}.{step.name}.{PARAMETERS}",
                    "that step has made several calls, or none",
                )


def _there(kept: Kept | None) -> TypeGuard[Kept]:
    return kept is not None and not kept.missing


_MISSING = "it is too large for the recording that is replayed, and the task that gave it is not there"
