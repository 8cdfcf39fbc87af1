"""What a plan would do: counted, and estimated by what its tools have taken so far."""

from __future__ import annotations

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.limits.outlook import Outlook
from replan.core.limits.policy import needs_approval
from replan.core.limits.prices import Price
from replan.core.state.task import State
from replan.core.types import Plan, Role, Step, ToolSpec, Usage
from replan.core.waits.tools import tools_of
from replan.ports import Priced, Tools
from replan.run.reviews.estimates import Estimates
from replan.run.session.dependencies import Parts

STEP_TOKENS = Usage(input_tokens=1_500, output_tokens=300)
"""About what a step of a plan takes that asks a model; more where its input is large."""
JUDGE_TOKENS = Usage(input_tokens=3_000, output_tokens=400)
"""About what the judgement of a small task takes; more where outputs are large."""
_NOTHING = Usage()


async def outlook(state: State, plan: Plan, parts: Parts, planning: Usage = _NOTHING) -> Outlook:
    """Of the steps of the plan that are not done. `planning`: what is counted with it, as what it has cost to make it."""
    work = (state, plan, parts, planning)
    return await beside(outlook_at_once, *work) if len(plan.steps) > MANY else outlook_at_once(*work)


def outlook_at_once(state: State, plan: Plan, parts: Parts, planning: Usage = _NOTHING) -> Outlook:
    policy = state.policy
    side_by_side = policy.parallel_max_concurrent if policy.enable_parallel_execution else 1
    estimates = Estimates(parts, state.metadata, side_by_side=side_by_side)
    done = {name for name, step in state.steps.items() if step.closed}
    due = [step for step in plan.steps if step.step_id not in done]
    effects: list[str] = []
    approvals: list[str] = []
    for step in due:
        tools = _known(step, parts.tools)
        effects += [f"{step.step_id}: {tool.id} ({tool.effect})" for tool in tools if tool.effect != "reads"]
        if any(needs_approval(policy, step, tool) for tool in tools):
            approvals.append(str(step.step_id))
    judged = policy.evaluation == "model"
    asked = sum(estimates.calls_of(step, models_only=True) for step in due)
    left = plan if len(due) == len(plan.steps) else _without(plan, due)
    return Outlook(
        effects=tuple(effects),
        approvals=tuple(approvals),
        tool_calls=sum(map(estimates.calls_of, due)),
        open_items=tuple(str(step.step_id) for step in due if estimates.items_of(step) is None),
        model_calls=planning.llm_calls + asked + judged,
        estimated_secs=estimates.whole_secs(left),
        estimated_cost_usd=_cost(planning, parts, asked=asked, judged=judged),
        critical_path=tuple(estimates.path(left)),
    )


def _without(plan: Plan, due: list[Step]) -> Plan:
    """What is left of it, without what its steps waited for that is done."""
    names = {step.step_id for step in due}
    steps = [
        step.model_copy(update={"dependencies": tuple(one for one in step.dependencies if one in names)})
        for step in due
    ]
    return plan.model_copy(update={"steps": tuple(steps)})


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
