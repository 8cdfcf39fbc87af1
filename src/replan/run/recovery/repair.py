"""One step written anew by the planner, checked in the plan as it stands (specification §6, layer 2)."""

from __future__ import annotations

from replan.core.as_meant import step_as_meant
from replan.core.events import StepRepaired
from replan.core.plan.check import check_plan
from replan.core.plan.diff import diff_of
from replan.core.plan.proposed import Proposed, proposal_violations
from replan.core.plan.read import read_plan
from replan.core.plan.repeats import marks, with_marks
from replan.core.recovery.known import stands_in
from replan.core.recovery.substitutes import EFFECT_WORDS, strongest
from replan.core.state.step_recovery import Healing
from replan.core.state.task import StepState, actions_of
from replan.core.types import Fault, JsonObject, Plan, Step, ToolSpec
from replan.core.waits.tools import tools_of
from replan.errors import ModelError, PlanInvalid
from replan.reasoning.planning.replanner import CannotRepair, repair_step
from replan.run.calls.outline import outline
from replan.run.calls.repeats import places
from replan.run.calls.rivals import made_elsewhere, planned_calls
from replan.run.rounds.made_with import made_with
from replan.run.rounds.plan_checks import (
    allowed_tools,
    earlier_schemas,
    followed,
    settled_steps,
    stand_ins,
    toolbox,
)
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.session.outputs import Loaded
from replan.run.views.steps import repair_view


async def repair(run: Run, step: StepState, fault: Fault, hint: str) -> str:
    """Have the step written anew and record it; empty text, or why there is no better step."""
    assert run.state.plan is not None
    tools = allowed_tools(run)
    step_id = step.step.step_id

    def new_step(answer: JsonObject) -> Step:
        read = read_plan({"steps": [answer]}, plan_id="", task="")
        if len(read.steps) != 1:
            raise PlanInvalid(["exactly one step is wanted"])
        asks = read.steps[0].requires_approval or step.step.requires_approval
        kept: JsonObject = {"step_id": step_id, "requires_approval": asks}
        return with_marks(read.steps[0].model_copy(update=kept), step.step, run.parts.tools.resolve)

    made: dict[str, Step] = {}

    def check(new: Step) -> list[str]:
        checked, found = _checked(run, step, new, tools)
        made["step"] = checked
        return found

    try:
        talk = RoleTalk(run, "planning")
        await repair_step(
            talk, view=repair_view(run, step, fault, hint, tools, talk.style),
            new_step=new_step, check=check,
        )  # fmt: skip
    except CannotRepair as error:
        return f"the planner sees no form of the step that would do, or has to know something first: {error}"
    except ModelError as error:
        return f"no better step was found: {error}"
    before = run.state.plan
    after = _replaced(before, made["step"])
    run.record(
        StepRepaired(
            step=made["step"],
            plan_version=run.state.plans + 1,
            hint=hint,
            diff=diff_of(before, after),
            made_with=made_with(run, [made["step"]]),
        )
    )
    return ""


def _checked(run: Run, step: StepState, new: Step, tools: list[ToolSpec]) -> tuple[Step, list[str]]:
    """The step as it will run, and what is wrong with it in the plan as it stands."""
    state = run.state
    assert state.plan is not None
    new = step_as_meant(new, run.parts.tools.resolve)
    own = {step.step.step_id, *(action.action_id for action in step.step.actions)}
    others = {
        name
        for one in state.plan.steps
        for name in (one.step_id, *(action.action_id for action in one.actions))
    }
    checked = check_plan(
        _replaced(state.plan, new),
        toolbox(run, [*tools, *_tools_of(run, state.plan)]),
        metadata=state.metadata,
        secret=state.secret_metadata(),
        limits=state.policy.limits,
        earlier=earlier_schemas(run),
        used=state.ids_used() - own - others,
        settled=settled_steps(run),
        ran=stand_ins(run),
        followed=followed(run),
    )
    made = next(one for one in checked.plan.steps if one.step_id == step.step.step_id)
    found = list(checked.violations)
    allowed = {tool.id for tool in tools}
    strange = [name for name in _named(made) if name not in allowed and run.parts.tools.resolve(name)]
    found += [
        f"the tool {name!r} was not selected for this task; there are: {', '.join(sorted(allowed)[:20])}"
        for name in strange
    ]
    mine, resolve = {made.step_id}, run.parts.tools.resolve
    proposed = Proposed(checked.plan.steps, mine, False, stands_in(state), may_repeat=False, held=mine)
    found += proposal_violations(proposed, resolve)
    if marks(made, resolve) - marks(step.step, resolve):
        found.append(
            "`repeat` is not for a step that is rewritten, which does once what it was planned for: leave it out"
        )
    if not found and (stronger := _stronger(run, step.step, made)):
        found.append(stronger)
    done = ("succeeded", "skipped")
    late = [need for need in made.dependencies if state.steps[need].status not in done] if not found else []
    if late:
        found.append(f"step {made.step_id!r} would have to wait for {', '.join(late)}, which are not done")
    if not found and (again := _done_otherwise(step, made)):
        found.append(again)
    if not found and (twice := _twice(run, step, made)):
        found.append(twice)
    if not found and _same(made, step.step):
        found.append(
            "this is the step as it was, which failed; change its parameters, its tool or its inputs"
        )
    tried = (step.healing or Healing()).tried()
    if not found and not made.actions and made.for_each is None:
        tool = run.parts.tools.resolve(made.tool)
        if tool and not tried.isdisjoint(state.bases(tool, made.parameters)):
            found.append("this very call was tried for this step already and failed; change what matters")
    return made, found


def _done_otherwise(step: StepState, new: Step) -> str:
    """What is wrong with a rewrite that would do in another form what calls of the step have done already."""
    done = [call for call in step.calls.values() if call.status == "succeeded" and call.effect == "once"]
    if not done:
        return ""
    if step.step.for_each is not None:
        kept = (new.tool, new.parameters, new.for_each) == (
            step.step.tool,
            step.step.parameters,
            step.step.for_each,
        )
        changed = [] if kept else ["its items"]
    else:
        now = {action.action_id: (action.tool, action.parameters) for action in new.actions}
        changed = [
            name
            for call in done
            if (name := call.slot.action_id) is not None
            and now.get(name) != (step.action(name).tool, step.action(name).parameters)
        ]
    if not changed:
        return ""
    return f"{', '.join(map(repr, changed))} took effect already and would be done again in another form; leave it as it was"


def _twice(run: Run, step: StepState, made: Step) -> str:
    """What is wrong with a rewrite that makes a call which another step makes as well, or is to make."""
    state, tools = run.state, run.parts.tools
    anew = StepState(made, born=state.plans + 1)
    planned = planned_calls(step, state, tools)
    try:
        found = [one for action in actions_of(made) for one in places(anew, action, state, Loaded())]
    except KeyError:
        return ""
    for slot, item in found:
        try:
            meant = outline(anew, slot, state, tools, Loaded(), item)
        except KeyError:
            continue
        if meant.tool is None or meant.fault is not None:
            continue
        if not planned.isdisjoint(state.bases(meant.tool, meant.parameters)):
            continue  # what it was planned for it may do, whatever others do
        if place := made_elsewhere(step, slot, meant.tool, meant.parameters, state, tools):
            return (
                f"{place} makes this very call of {meant.tool.id!r} already, or is to make it, and its effect does not stand "
                "for two; do what this step was for, or leave it to a new plan"
            )
    return ""


def _stronger(run: Run, planned: Step, made: Step) -> str:
    """What is wrong with a rewrite that would change more in the world than what was planned."""
    resolve = run.parts.tools.resolve
    found = {name: resolve(name) for name in _named(planned)}
    effects = [
        run.state.effect_of_gone(name) if tool is None else tool.effect for name, tool in found.items()
    ]
    may = strongest(*(effect for effect in effects if effect is not None))
    for name in _named(made):
        tool = resolve(name)
        if tool is not None and tool.is_stronger_than(may):
            return (
                f"{tool.id!r} {EFFECT_WORDS[tool.effect]}, and what the step was planned to call {EFFECT_WORDS[may]}: "
                "a step that is rewritten may not do more; take a tool that does no more"
            )
    return ""


def _replaced(plan: Plan, step: Step) -> Plan:
    steps = tuple(step if one.step_id == step.step_id else one for one in plan.steps)
    return plan.model_copy(update={"steps": steps})


def _named(step: Step) -> list[str]:
    return [step.tool] if not step.actions else [action.tool for action in step.actions]


def _tools_of(run: Run, plan: Plan) -> list[ToolSpec]:
    """The tools that the plan names already."""
    found = (run.parts.tools.resolve(name) for step in plan.steps for name in tools_of(step))
    return [tool for tool in found if tool is not None]


def _same(new: Step, old: Step) -> bool:
    matter = (
        "tool",
        "parameters",
        "actions",
        "when",
        "for_each",
        "dependencies",
        "timeout_secs",
        "repeat",
        "allow_failed_items",
    )
    return all(getattr(new, name) == getattr(old, name) for name in matter)
