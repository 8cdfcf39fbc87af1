"""Plans on stdout: as JSON, or drawn in a form that other programs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from replan.errors import InputError

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
    from replan.core.plan.diagram import draw

    out.line(draw(plan, form, statuses).rstrip("\n"))


def version_of(records: Sequence[Record], number: int | None) -> tuple[Plan, dict[str, str]]:
    """A version of a task's plan, and how its steps stand if it is the latest. `InputError` if there is none."""
    from replan.core.events import PlanGenerated, PlanUpdated
    from replan.core.state.fold import fold

    state = fold(records)
    if state.plan is None:
        raise InputError(f"task {state.task_id!r} has no plan: it is {state.status}")
    if number is None or number == state.plan.version:
        return state.plan, {name: step.status for name, step in state.steps.items()}
    plans = {
        record.event.plan.version: record.event.plan
        for record in records
        if isinstance(record.event, PlanGenerated | PlanUpdated)
    }
    if number not in plans:
        there = ", ".join(map(str, sorted({*plans, state.plan.version})))
        raise InputError(f"task {state.task_id!r} has no plan {number}; there are: {there}")
    return plans[number], {}
