"""What a task is allowed and how it is run: recorded with the task, so that it stays the same after a restart."""

from __future__ import annotations

from typing import Literal

from replan.core.tools.versions import ToolVersion
from replan.core.types import Frozen, JsonObject, Step, ToolSpec
from replan.errors import InputError


class Budget(Frozen):
    """Limits of a task. None is no limit; 0 allows nothing."""

    task_timeout_secs: float | None = 300.0
    max_llm_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_tool_calls: int | None = None
    max_rounds: int | None = None


class PlanLimits(Frozen):
    """How large a plan may be."""

    max_steps: int = 10_000
    max_depth: int = 10_000
    max_fan_out: int = 10_000
    """Actions of one step, or items of one `for_each`."""
    max_references: int = 10_000
    """References of one step."""


class OlderLimits(Frozen):
    """Fixed limits of the older service. Unset, they bind nothing: the model decides within the budget and the guard."""

    max_step_retries: int | None = None
    """Tries of layer 1 (other parameters, another tool) for one call."""
    max_single_step_repairs: int | None = None
    max_task_replanning_attempts: int | None = None
    consecutive_failure_threshold: int | None = None
    """That many failed tries of a step in a row make the plan anew."""
    max_reflection_rounds: int | None = None
    """Overall reflections of one task."""


class Policy(Frozen):
    """How a task is planned, run, judged and repaired."""

    budget: Budget = Budget()
    limits: PlanLimits = PlanLimits()
    enable_step_level_reflection: bool = True
    """A failed step is diagnosed and repaired at once, beside everything that does not depend on it."""
    enable_auto_reflection: bool = True
    """A round that did not do is reflected upon and the plan made anew; else its verdict is the task's."""
    older: OlderLimits = OlderLimits()
    trust_model_settlement: bool = False
    """A model's reading that a call in doubt did not happen is enough to make it again, after a while."""
    interactive: bool = False
    """A person can be reached: the task waits for one where it would have to end otherwise."""
    evaluation: Literal["model", "steps"] = "model"
    approval: Literal["never", "destructive", "all"] = "never"
    """Which calls need a person's yes. Where nobody can be reached, such a call is not made."""
    review_plan: bool = False
    """No step of a plan starts before a person has agreed to the plan."""
    approval_expires_secs: float | None = None
    """So long a person is waited for who is to agree to a call or to a plan; None: as long as it takes."""
    success_threshold: float = 80.0
    correctness_excellent: float = 95.0
    enable_two_stage_planning: bool = True
    two_stage_tool_threshold: int = 10
    tool_selection_threshold: float = 70.0
    max_plan_corrections: int = 2
    enable_parallel_execution: bool = True
    parallel_max_concurrent: int = 8
    parallel_min_steps: int = 2
    max_transient_retries: int = 3
    """Extra tries of one call after a transient fault."""
    max_output_bytes: int = 262_144
    enable_streaming: bool = True
    output_schema: JsonObject | None = None
    """What the final answer has to look like; None: free text."""


def needs_approval(policy: Policy, step: Step, tool: ToolSpec) -> bool:
    """True if a person has to agree before the step's tool is called."""
    return step.requires_approval or tool.requires_approval or asks_about(policy.approval, tool)


def asks_about(mode: str, tool: ToolSpec | ToolVersion) -> bool:
    """True if that mode alone has a person agree to calls of the tool."""
    return mode == "all" or (mode == "destructive" and tool.effect == "once")


_STRICTNESS = ("never", "destructive", "all")


def stricter_approval(mode: str, than: str) -> bool:
    """True if more calls need a person's yes so."""
    return _STRICTNESS.index(mode) > _STRICTNESS.index(than)


def with_approval(policy: Policy, mode: object) -> Policy:
    """The policy with that mode; unchanged where it is none."""
    return policy.model_copy(update={"approval": mode}) if mode in _STRICTNESS else policy


def within(budget: Budget, timeout: float) -> Budget:
    """The budget with so many seconds for a task; `InputError` if that is no time."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not timeout > 0:
        raise InputError(f"the timeout has to be a number of seconds above 0, not {timeout!r}")
    return budget.model_copy(update={"task_timeout_secs": float(timeout)})
