"""Which steps of a planner's answer are new: copies of what stays are left out, and what could be meant in two ways is asked about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from replan.core.plan.index import references_of
from replan.core.references.conditions import roots
from replan.core.state.task import ids_of
from replan.core.types import Plan, Step, StepId
from replan.errors import PlanInvalid
from replan.run.session.context import Run


def check_restated(run: Run, plan: Plan, helped: Collection[StepId], new: Sequence[Step]) -> None:
    """A helped step that is written again stays the call that it was: another tool would pass for it."""
    known = {step.step_id: _tools_of(run, step) for step in plan.steps if step.step_id in helped}
    if found := [
        f"step {step.step_id!r} runs again after the new ones with its own tool, {' and '.join(known[step.step_id])}: "
        "a call of another one is a step of its own, with an id of its own"
        for step in new
        if step.step_id in known and _tools_of(run, step) != known[step.step_id]
    ]:
        raise PlanInvalid(found)


def _tools_of(run: Run, step: Step) -> list[str]:
    names = [action.tool for action in step.actions] if step.actions else [step.tool]
    found = [(name, run.parts.tools.resolve(name)) for name in names]
    return sorted(tool.id if tool is not None else name for name, tool in found)


def new_steps(
    steps: Sequence[Step], staying: Mapping[StepId, Sequence[Step]], over: Collection[StepId]
) -> list[Step]:
    """The steps without the copies of what stays. What is over waited for no new step: one that does is no such copy."""
    copied = {step.step_id for step in steps if _is_restated(step, staying)}
    waiting = [step for step in steps if step.step_id in copied & set(over)]
    names = {name for step in steps for name in ids_of(step)} - copied
    while later := {step.step_id for step in waiting if not names.isdisjoint(_goes_by(step))} & copied:
        copied -= later
        names |= later
    return [step for step in steps if step.step_id not in copied]


def with_marks_of_copies(
    plan: Plan, steps: Sequence[Step], staying: Mapping[StepId, Sequence[Step]], over: Collection[StepId]
) -> Plan:
    """The plan with what a copy of a step that is still to run asks for beside its call: a yes, or to do without items.

    And with what a copy of any step says that it stands for.
    """
    asked = {step.step_id: step for step in steps if _is_restated(step, staying)}
    changed = tuple([_marked(step, asked.get(step.step_id), over) for step in plan.steps])
    return plan if changed == plan.steps else plan.model_copy(update={"steps": changed})


def _marked(step: Step, copy: Step | None, over: Collection[StepId]) -> Step:
    if copy is None:
        return step
    marks: dict[str, object] = {
        name: True
        for name in _MARKS
        if step.step_id not in over and getattr(copy, name) and not getattr(step, name)
    }
    if stands := tuple(name for name in copy.instead_of if name not in step.instead_of):
        marks["instead_of"] = step.instead_of + stands
    return step.model_copy(update=marks) if marks else step


_MARKS = ("requires_approval", "allow_failed_items")


def _is_restated(step: Step, staying: Mapping[StepId, Sequence[Step]]) -> bool:
    """True if a planner that was to write new steps only has copied one that stays, as it was planned or as it was made."""
    return any(_does(step) == _does(known) for known in staying.get(step.step_id, ()))


def _does(step: Step) -> tuple[object, ...]:
    return step.tool, step.parameters, step.actions, step.for_each or "", step.when or "", step.repeat


def check_ids(run: Run, steps: Sequence[Step], new: Sequence[Step]) -> None:
    """A reading under its old id may be meant as it was or anew: where that makes a difference, it has to be said."""
    own = {step.step_id for step in new}
    needed = {name for step in new for name in _goes_by(step)}
    if found := [
        f"step {step.step_id!r} is done under that id: leave it out if what it gave is meant (refer to it as it is); give it a new id, "
        "and refer to that, if it is to be done anew"
        for step in steps
        if step.step_id not in own and _may_differ(run, step, needed=step.step_id in needed)
    ]:
        raise PlanInvalid(found)


def _goes_by(step: Step) -> set[str]:
    """The steps and actions that it waits for, refers to or goes by in its condition, as it is written."""
    looked_at = (name for name, _ in roots(step.when or "''"))
    return {*step.dependencies, *(ref.head for ref in references_of(step)), *looked_at}


def _may_differ(run: Run, step: Step, *, needed: bool) -> bool:
    """True if a finished step that only reads may give something else by now."""
    known = run.state.steps.get(step.step_id)
    tools = [
        run.parts.tools.resolve(name) for name in (step.tool, *(one.tool for one in step.actions)) if name
    ]
    if known is None or any(tool is None or tool.effect != "reads" for tool in tools):
        return False
    if any(tool is not None and tool.volatile for tool in tools):
        return True
    if not needed:
        return False
    read = max((call.ended or 0.0 for call in known.calls.values()), default=0.0)
    later = (call for one in run.state.every_step() for call in one.calls.values())
    return any(call.effect != "reads" and (call.ended or 0.0) >= read for call in later)
