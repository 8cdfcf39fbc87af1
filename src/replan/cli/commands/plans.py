"""Plans on stdout: as JSON, or drawn in a form that other programs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replan.cli.terminal.options import PlanForm
    from replan.cli.terminal.terminal import Out
    from replan.core.events import Record
    from replan.core.types import Plan


def tell_plan(out: Out, plan: Plan, form: PlanForm, statuses: Mapping[str, str] | None = None) -> None:
    """Print the plan in this form."""
    if form == "json":
        out.json(plan.model_dump(mode="json", exclude_defaults=True))
        return
    from replan.core.drawing.forms import draw
    from replan.core.drawing.graph import TaskGraph

    out.line(draw(TaskGraph.of_plan(plan).with_statuses(statuses or {}), form).rstrip("\n"))


def version_of(records: Sequence[Record], number: int | None) -> tuple[Plan, dict[str, str]]:
    """A version of a task's plan, and how its steps stand if it is the latest. `InputError` if there is none."""
    from replan.core.state.fold import fold
    from replan.run.service.drawn import plan_of_version

    state = fold(records)
    plan = plan_of_version(records, state, number)
    return plan, {name: step.status for name, step in state.steps.items()} if plan is state.plan else {}
