"""What reasoning is shown of a failure, a round and a plan to be made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replan.core.reflection import ActionType
from replan.core.types import Evaluation, Fault, JsonObject, Plan, Step, ToolSpec
from replan.reasoning.prompting.view import StepReport, TaskView


class DoneCall(NamedTuple):
    """A call that has taken effect."""

    text: str
    """Tool, parameters as JSON, step."""
    repeatable: bool
    """Doing it again is as doing it once."""


@dataclass(frozen=True, slots=True)
class TryView:
    """One failed try of a step: what was called with what, what came of it, and what was done about it."""

    tool: str
    parameters: JsonObject
    error: str
    """Category and message."""
    proposal: str = ""
    """What the reflection after it proposed, in one line; empty if there was none."""
    carried_out: str = ""
    """What was done instead or because of it, in one line."""
    where: str = ""
    """The step of an earlier plan that it belonged to; empty: of the step as it is."""


@dataclass(frozen=True, slots=True)
class ReadingView:
    """A reading made to find out whether a call took effect."""

    tool: str
    parameters: JsonObject
    output: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failed step as `reflect_on_step` is shown it."""

    task: TaskView
    step: Step
    """As planned: its parameters may hold references."""
    place: str
    """Which call of the step failed, as `item 3`; empty if it has only one."""
    tool: ToolSpec | None
    """The tool that failed; None if it does not exist."""
    parameters: JsonObject
    """As resolved, secrets masked."""
    fault: Fault
    tools: Sequence[ToolSpec]
    """What may be used instead, the selected ones first."""
    substitutes: Sequence[str]
    """Ids of tools with a like description and schema, the likeliest first."""
    done: Sequence[StepReport]
    """The steps that have succeeded."""
    tries: Sequence[TryView]
    """Every failed try of this step, the latest last."""
    readings: Sequence[ReadingView]
    """For a call in doubt: what has been read since."""
    allowed: Sequence[ActionType]
    """What is still open; every other proposal is refused."""
    counters: Mapping[str, str] = field(default_factory=dict)
    """`{"tries of this step": "2", …}`, with older limits where they are set."""
    budget: str = ""
    """What is left, in one line."""
    repeats: Sequence[str] = ()
    """What has been seen twice, in words; empty if nothing."""
    in_doubt: bool = False
    settled: Sequence[str] = ()
    """Like calls that were in doubt too, each with the record that it was settled by."""
    trusted: bool = False
    """A reading that a call in doubt did not happen leads to a second one, with nobody asked."""
    plan: Plan | None = None
    """The plan as it was made."""
    selected: Sequence[str] = ()
    """Ids of the tools that were selected for the plan."""


@dataclass(frozen=True, slots=True)
class RoundView:
    """A finished or interrupted round, as the overall reflection is shown it."""

    task: TaskView
    plan: Plan
    steps: Sequence[StepReport]
    """Every step of the plan, and those of earlier plans that failed."""
    evaluation: Evaluation | None
    """None: the round has not been judged."""
    trigger: str
    """Why it is reflected upon, in one line."""
    history: Sequence[str]
    """Earlier rounds in one line each: strategy, what changed, what came of it."""
    statistics: Mapping[str, str]
    budget: str
    round: int
    repeats: Sequence[str]
    done_effects: Sequence[str] = ()
    """Effects that have taken place, in one line each."""
    done: Sequence[DoneCall] = ()
    """The same, told apart by whether they may be repeated."""
    tools: Sequence[ToolSpec] = ()
    """What another plan may use, those that were selected first."""
    outdated: bool = False
    """A person has spoken since the round was judged."""


@dataclass(frozen=True, slots=True)
class UsedTool:
    """A tool that an earlier plan used, for the selection in replanning mode (specification §4.1)."""

    tool_id: str
    tool_name: str
    execution_status: str
    failure_reason: str
    execution_summary: str
    """At most 200 characters, never cut inside one."""


@dataclass(frozen=True, slots=True)
class Reselection:
    """What the selection in replanning mode is shown besides the task and the tools (specification §4.1)."""

    used: Sequence[UsedTool]
    history: Sequence[str]
    """What has been done so far, in one line each."""
    analysis: str
    """What the reflection says of the failure."""
    guidance: JsonObject
    strategy: str


@dataclass(frozen=True, slots=True)
class ReplanView:
    """What a planner is shown that makes a plan anew, in whole or in part."""

    task: TaskView
    round: int
    strategy: str
    """`full_replan`, `replan_from_step`, `add_remediation_steps`, `replan` for the advice of a step's reflection, or `continue`
    after a plan that was a first part."""
    reason: str
    previous: Plan
    steps: Sequence[StepReport]
    """Every step of the previous plan with its result or error, and finished ones of earlier plans."""
    kept: Sequence[str]
    """Ids that stay in the plan and are not to be written again."""
    usable: Mapping[str, JsonObject | None]
    """Ids whose outputs may be referred to, with their output schemas where known."""
    failed: Sequence[str]
    """The steps that the new ones are about: the first to be written anew, or those that they help."""
    used_ids: Sequence[str]
    """Ids that no new step may take."""
    next_id: str
    """The first free id of the form `step_N`."""
    evaluation: Evaluation | None
    guidance: JsonObject
    suggestions: Sequence[str]
    done_effects: Sequence[str]
    done: Sequence[DoneCall] = field(default=(), kw_only=True)
    tried_plans: Sequence[str]
    """Earlier plans in one line each."""
    budget: str


@dataclass(frozen=True, slots=True)
class RepairView:
    """One step to be written anew, everything else staying as it is."""

    task: TaskView
    plan: Plan
    step: Step
    fault: Fault
    hint: str
    tries: Sequence[TryView]
    done: Sequence[StepReport]
    needed_by: Sequence[str]
    """Steps that refer to its output, with what they refer to, in one line each."""
    tools: Sequence[ToolSpec]
    budget: str = ""
    begun: Plan | None = None
    """The plan as it was made: it is what is shown."""
    done_effects: Sequence[str] = ()
    """What calls of the step have done already, in one line each."""
