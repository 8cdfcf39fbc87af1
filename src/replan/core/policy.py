"""What a task is allowed and how it is run: recorded with the task, so that it stays the same after a restart."""

from __future__ import annotations

from typing import Literal

from replan.core.types import Frozen, JsonObject, Step, ToolSpec


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


class Policy(Frozen):
    """How a task is planned, run and judged."""

    budget: Budget = Budget()
    limits: PlanLimits = PlanLimits()
    evaluation: Literal["model", "steps"] = "model"
    approval: Literal["never", "destructive", "all"] = "never"
    """Which calls need a person's yes. Nobody can be asked yet, so such a call is not made."""
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
    if step.requires_approval or policy.approval == "all":
        return True
    return policy.approval == "destructive" and tool.effect == "once"
