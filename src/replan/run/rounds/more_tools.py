"""A plan by the tools that were selected; and by more of them where the planner lacks one: a selection may be wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from replan.core.events import PlanRejected, SelectedTool, ToolSelectionCompleted
from replan.core.types import ToolId, ToolSpec
from replan.errors import PlanInvalid
from replan.reasoning.planning.planner import Planned
from replan.run.rounds.plan_checks import NotSelected, allowed_tools
from replan.run.session.context import Run


async def with_more_tools(run: Run, plan_with: Callable[[list[ToolSpec]], Awaitable[Planned]]) -> Planned:
    """The plan that `plan_with` makes of the tools it is given.

    A tool that it names and that was not selected is selected, the first time; where it names another one, or says that it
    cannot be done, every tool is. Whoever has seen them all is believed.
    """
    named_before = False
    while True:
        try:
            planned = await plan_with(allowed_tools(run))
        except NotSelected as error:
            if not run.state.policy.max_plan_corrections:
                raise PlanInvalid(error.violations) from error
            run.record(PlanRejected(violations=error.violations))
            _select(run, () if named_before else error.tools, error.violations[0])
            named_before = True
            continue
        if not planned.plan.cannot or not _not_selected(run):
            return planned
        _select(run, (), f"the planner lacks a tool: {planned.plan.cannot}")


def _not_selected(run: Run) -> list[ToolId]:
    chosen = {tool.id for tool in allowed_tools(run)}
    return [tool.id for tool in run.parts.tools.specs() if tool.id not in chosen]


def _select(run: Run, more: Sequence[ToolId], why: str) -> None:
    """Select these tools too; without any, all that there are."""
    known = run.state.selection
    assert known is not None  # else nothing would be left to select
    added = tuple(SelectedTool(tool_id=name, reason=why) for name in more or _not_selected(run))
    run.record(
        ToolSelectionCompleted(
            phase=known.phase,
            tools=(*known.tools, *added),
            task_type=known.task_type,
            workflow_id=known.workflow_id,
            reasoning=why,
            asked=known.asked,
            changes_summary=known.changes_summary,
        )
    )
