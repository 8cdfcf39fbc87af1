"""The kinds of task and the workflows that a task may be given, and when a model is asked which before it plans."""

from __future__ import annotations

from replan.core.events import SelectedTool, ToolSelectionCompleted
from replan.core.kinds.known import NOTHING_OFFERED, Known, Offered, nearest_workflows
from replan.core.kinds.scene import DEFAULT
from replan.core.kinds.workflow import Workflow
from replan.core.types import Role
from replan.reasoning.prompting.offered import room_for
from replan.run.session.context import Run

MOST_WORKFLOWS = {"standard": 30, "small": 8}
"""That a model is shown: those which share the most words with the task."""


def offered(run: Run, known: Known) -> Offered:
    """What may be named for this task. A plan that is made anew stays of its kind, and comes from no workflow.

    A workflow is offered where every tool that it calls is here; the built-in model is offered those alone that somebody has named.
    """
    if run.state.replanning is not None or known.nothing:
        return NOTHING_OFFERED
    small = _is_small(run, "planning") or _is_small(run, "selection")
    usable = [
        one for one in known.workflows.values() if not (small and one.built_in) and not lacking(run, one)
    ]
    most = MOST_WORKFLOWS["small" if small else "standard"]
    return Offered(tuple(known.kinds), tuple(nearest_workflows(run.state.description, usable, most)))


def lacking(run: Run, workflow: Workflow) -> list[str]:
    """The tools that it calls and that are not here."""
    return [name for name in workflow.tools if run.parts.tools.resolve(name) is None]


def is_asked_first(run: Run, there: Offered) -> bool:
    """True if the kind of task is chosen before it is planned: the plan of a small model does not say it, and a prompt has only so much
    room for the guidance of all kinds."""
    if not (there.scenes or there.workflows):
        return False
    return _is_small(run, "planning") or not room_for(there, "planning")


def in_plan(run: Run, there: Offered) -> Offered:
    """What the plan itself may name: nothing once a selection has said it."""
    selection = run.state.selection
    if (selection is not None and selection.asked) or _is_small(run, "planning"):
        return NOTHING_OFFERED
    return there


def with_guidance(selected: ToolSelectionCompleted, known: Known) -> ToolSelectionCompleted:
    """The selection with the scene of the kind that it names, and with the tools of its workflow."""
    workflow = selected.workflow
    if workflow is not None and workflow.task_type != DEFAULT:  # whoever has written it knows
        selected = selected.model_copy(update={"task_type": workflow.task_type})
    there = {tool.tool_id for tool in selected.tools}
    more: tuple[SelectedTool, ...] = ()
    if workflow is not None:
        why = f"of the workflow {workflow.workflow_id}"
        more = tuple(SelectedTool(tool_id=name, reason=why) for name in workflow.tools if name not in there)
    scene = known.scene(selected.task_type)
    return selected.model_copy(update={"scene": scene, "tools": (*selected.tools, *more)})


def _is_small(run: Run, role: Role) -> bool:
    model = run.parts.models.get(role)
    return model is not None and model.style == "small"
