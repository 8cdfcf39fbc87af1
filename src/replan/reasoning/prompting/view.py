"""What reasoning is shown of a task and of its steps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from replan.core.following.told import PreviousTask
from replan.core.types import Artifact, Fault, Frozen, JsonObject, StepId, ToolId

MOST_CALLS = 40
"""Calls of one step, or items that were called alike, of which each gets a line."""


class TaskView(Frozen):
    """A task as prompts see it. `today` is an ISO date; empty: not said."""

    description: str
    metadata: JsonObject = {}
    context: JsonObject = {}
    today: str = ""
    output_schema: JsonObject | None = None
    """What the final answer has to look like; None: free text."""
    given: bool = False
    """A person has given the first plan."""
    guidance: str = ""
    """Advice for this kind of task, written by whoever runs the service."""
    people: tuple[str, ...] = ()
    """What people were asked and have said, in its order."""
    previous: tuple[PreviousTask, ...] = ()
    """The tasks that it follows."""
    more_previous: int = 0
    """Of how many more of its session nothing is told."""
    many_previous: bool = False
    """There may be more than that."""


@dataclass(frozen=True, slots=True)
class CallReport:
    """One of several calls of a step."""

    place: str
    """Which one: `item 3`, `action 'a'`, or when it was made."""
    tool: ToolId
    status: str
    parameters: JsonObject = field(default_factory=dict)
    error: str = ""
    notes: tuple[str, ...] = ()
    """As those of a step."""


@dataclass(frozen=True, slots=True)
class ItemCalls:
    """The calls of a list's items that went as planned, and of which there is nothing else to say."""

    place: str
    """Of which action; empty: of the step's tool."""
    tool: ToolId
    parameters: JsonObject
    """What all of them were called with."""
    each: tuple[tuple[str, JsonObject], ...]
    """Of the first items, which (`item 3`), and what it was called with besides; empty: none has anything of its own."""
    count: int
    every: bool = True
    """There are no other items."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of a finished round, as far as it got."""

    step_id: StepId
    name: str = ""
    tool: ToolId = ""
    status: str = "succeeded"
    """`succeeded`, `failed` or `skipped`; anything else counts as not finished."""
    parameters: JsonObject = field(default_factory=dict)
    """As resolved, secrets masked."""
    output: Any = None
    output_text: str = ""
    """The output as text, for callers that have no value; `output` goes first."""
    artifact: Artifact | None = None
    """Where the output is kept, if it was too large to carry."""
    error: Fault | str | None = None
    reason: str = ""
    """Why it was skipped."""
    notes: tuple[str, ...] = ()
    """What else is to be known of it, each in some words: `3 tries`, `has taken effect`, `replaced by step_4`."""
    when: str = ""
    for_each: str = ""
    expected: str = ""
    """What its planner expects of it."""
    planned: JsonObject = field(default_factory=dict)
    """The parameters that were written with references, as they were written."""
    reused: bool = False
    """Its only call was not made: the output is an earlier one's."""
    calls: tuple[CallReport, ...] = ()
    """Of several calls, those of which there is something to say, before the calls of actions that went as planned."""
    items: tuple[ItemCalls, ...] = ()
    """The other calls of a list's items."""
    current: bool = True
    """It is in the plan; otherwise a later plan has left it out."""

    def text(self) -> str:
        """The output on one line: JSON, so that no output can look like the report of another step."""
        if self.output is None and self.output_text:
            return _compact(self.output_text)
        return json.dumps(self.output, ensure_ascii=False, default=str)

    def value(self) -> Any:
        """The output, or what stands for it where it was too large."""
        if self.output is not None:
            return self.output
        if self.artifact is not None:
            return self.artifact.model_dump(mode="json", exclude={"tail"})
        return self.output_text or None

    def error_text(self) -> str:
        """Why it failed, in words; empty if it did not."""
        if isinstance(self.error, Fault):
            return f"{self.error.category}: {self.error.message}"
        return self.error or ""


def _compact(text: str) -> str:
    """JSON text without its line breaks; any other text as a JSON string."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
