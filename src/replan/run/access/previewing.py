"""What a task would do, before it is one."""

from __future__ import annotations

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.limits.policy import needs_approval
from replan.core.limits.prices import Price
from replan.core.state.task import State
from replan.core.types import Role, Step, ToolSpec, Usage
from replan.core.waits.tools import tools_of
from replan.ports import Priced, Tools
from replan.run.access.estimates import Estimates
from replan.run.access.views import Preview
from replan.run.service.submission import Submission
from replan.run.session.dependencies import Parts

STEP_TOKENS = Usage(input_tokens=1_500, output_tokens=300)
"""About what a step of a plan takes that asks a model; more where its input is large."""
JUDGE_TOKENS = Usage(input_tokens=3_000, output_tokens=400)
"""About what the judgement of a small task takes; more where outputs are large."""


async def preview(planned: State, wanted: Submission, parts: Parts) -> Preview:
    """`planned`: the task with the plan that was made for it, and with what that has cost."""
    many = planned.plan is not None and len(planned.plan.steps) > MANY
    return await beside(_preview, planned, wanted, parts) if many else _preview(planned, wanted, parts)


def _preview(planned: State, wanted: Submission, parts: Parts) -> Preview:
    plan, policy = planned.plan, wanted.policy
    assert plan is not None
    side_by_side = policy.parallel_max_concurrent if policy.enable_parallel_execution else 1
    estimates = Estimates(parts, wanted.metadata, side_by_side=side_by_side)
    effects: list[str] = []
    approvals: list[str] = []
    for step in plan.steps:
        tools = _known(step, parts.tools)
        effects += [f"{step.step_id}: {tool.id} ({tool.effect})" for tool in tools if tool.effect != "reads"]
        if any(needs_approval(policy, step, tool) for tool in tools):
            approvals.append(str(step.step_id))
    judged = policy.evaluation == "model"
    asked = sum(estimates.calls_of(step, models_only=True) for step in plan.steps)
    return Preview(
        plan=plan.model_dump(mode="json"),
        effects=tuple(effects),
        approvals=tuple(approvals),
        tool_calls=sum(map(estimates.calls_of, plan.steps)),
        open_items=tuple(str(step.step_id) for step in plan.steps if estimates.items_of(step) is None),
        model_calls=planned.usage.llm_calls + asked + judged,
        estimated_secs=estimates.whole_secs(plan),
        estimated_cost_usd=_cost(planned.usage, parts, asked=asked, judged=judged),
        critical_path=tuple(estimates.path(plan)),
        usage=planned.usage,
    )


def _known(step: Step, tools: Tools) -> list[ToolSpec]:
    return [tool for name in tools_of(step) if (tool := tools.resolve(name)) is not None]


def _cost(planning: Usage, parts: Parts, *, asked: int, judged: bool) -> float | None:
    """Of the models alone: planned as it was planned now, asked by steps, and judged once. None where somebody's price is not known."""
    cost = planning.cost_usd
    if planning.llm_calls and not cost:
        price = _price(parts, "planning")
        if price is None:
            return None
        cost = price.of(planning)
    if asked:
        price = _price(parts, "step")
        if price is None:
            return None
        cost += asked * price.of(STEP_TOKENS)
    if judged:
        price = _price(parts, "evaluation")
        if price is None:
            return None
        cost += price.of(JUDGE_TOKENS)
    return cost


def _price(parts: Parts, role: Role) -> Price | None:
    model = parts.models[role]
    return model.price() if isinstance(model, Priced) else None
