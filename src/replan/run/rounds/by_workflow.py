"""A plan from a workflow: a model fills the slots, code builds the plan, and it is checked as any other."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.events import PlanGenerated, PlanningStopped, PlanRejected
from replan.core.kinds.building import Unwritable, build
from replan.core.kinds.scene import Scene
from replan.core.kinds.workflow import UsedWorkflow, Workflow
from replan.core.own_tools.listed import OWN
from replan.core.plan.check import Checked
from replan.core.plan.read import read_plan
from replan.core.types import JsonObject, ToolSpec
from replan.core.words import in_digits, some
from replan.errors import AnswerInvalid, PlanInvalid
from replan.reasoning.planning.slots import Filling, fill_slots
from replan.run.rounds.kinds import lacking
from replan.run.rounds.made_with import made_with
from replan.run.rounds.plan_checks import NotSelected, check
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.views.task import view_of


async def plan_by(run: Run, workflow: Workflow, task_type: str, scene: Scene | None = None) -> str:
    """Record the plan that it comes to, or the question that a person has to answer first. Else why it cannot be used.

    `scene`: that of the kind, where the log does not have it yet.
    """
    if gone := lacking(run, workflow):
        return f"it calls {some(gone, 5)}, which is not here"
    latest: Checked | None = None

    def problems(values: JsonObject) -> list[str]:
        nonlocal latest
        try:
            latest = _checked(run, workflow, values)
        except (Unwritable, NotSelected) as error:
            return [str(error)]
        except PlanInvalid as error:
            return list(error.violations)
        return list(latest.violations)

    tools = [tool for name in workflow.tools if (tool := run.parts.tools.resolve(name)) is not None]
    task = view_of(run, "planning")
    if scene is not None:
        task = task.model_copy(update={"guidance": scene.guidance("planning")})
    try:
        found = await fill_slots(
            RoleTalk(run, "planning"),
            task,
            workflow,
            tools=tools,
            others=_others(run, tools),
            check=problems,
            commits=any(tool.effect != "reads" for tool in tools),
            on_rejected=lambda wrong, attempt: _rejected(run, wrong, attempt),
        )
    except AnswerInvalid as error:
        return f"its slots could not be filled: {some(error.problems, 3, between='; ')}"
    if found.cannot:
        return f"it is not what the task asks for: {found.cannot}"
    if found.missing:
        return _lacks(run, workflow, found)
    assert latest is not None
    run.record(
        PlanGenerated(
            plan=latest.plan,
            task_type=task_type,
            workflow_id=workflow.workflow_id,
            workflow=UsedWorkflow(
                workflow_id=workflow.workflow_id,
                digest=workflow.digest,
                slots=found.values,
                task_type=workflow.task_type,
            ),
            corrections=found.corrections,
            made_with=made_with(run, latest.plan.steps),
            scene=scene,
        )
    )
    run.state.checked(latest.graph, latest.constants)
    return ""


def _others(run: Run, own: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools that were selected beside those of the workflow; Replan's own find nothing out."""
    known = {*(tool.id for tool in own), *(tool.id for tool in OWN)}
    chosen = run.state.selection.tools if run.state.selection is not None else ()
    found = (run.parts.tools.resolve(one.tool_id) for one in chosen if one.tool_id not in known)
    return [tool for tool in found if tool is not None]


def _checked(run: Run, workflow: Workflow, values: JsonObject) -> Checked:
    plan = read_plan(
        {**build(workflow, values), "reasoning": f"built from the workflow {workflow.workflow_id}"},
        plan_id=run.parts.ids.new("plan"),
        version=run.state.plans + 1,
        task=run.state.description,
    )
    return check(run, plan, run.parts.tools.specs())


def _lacks(run: Run, workflow: Workflow, found: Filling) -> str:
    """Ask a person, where one can be reached."""
    named = ", ".join(found.missing)
    if not run.state.policy.interactive:
        return f"nothing says what to fill {named} with"
    said = found.question or f"What is {named} to be? The workflow {workflow.workflow_id!r} needs it."
    run.record(PlanningStopped(kind="question", reason=said))
    return ""


def _rejected(run: Run, problems: tuple[str, ...], attempt: int) -> None:
    run.record(PlanRejected(violations=problems, attempt=attempt))


def not_used(workflow: Workflow, why: str) -> str:
    """The note of a plan that was made in place of one from a workflow."""
    return (
        f"the workflow {workflow.workflow_id!r} ({in_digits(len(workflow.steps))} steps) was not used: {why}"
    )
