"""Why there is no plan, as the event that says so."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.events import PlanningStopped
from replan.core.types import Plan
from replan.errors import ModelError, PlanInvalid


class NothingNew(Exception):
    """Every plan that was made had been tried before; `violations` say so."""

    def __init__(self, found: Sequence[str]) -> None:
        super().__init__("no plan was found that had not been tried before")
        self.violations = tuple(found)


def declined(plan: Plan) -> PlanningStopped:
    """The planner says why there is no plan, or what has to be asked first."""
    if plan.ask_first:
        return PlanningStopped(kind="question", reason=plan.ask_first)
    return PlanningStopped(kind="cannot", reason=plan.cannot)


def stopped_by(error: PlanInvalid | NothingNew | ModelError) -> PlanningStopped:
    """No plan would do, or there was no planner."""
    match error:
        case NothingNew():
            return PlanningStopped(kind="repeats", reason=str(error), violations=error.violations)
        case PlanInvalid():
            reason = error.violations[0] if error.violations else str(error)
            return PlanningStopped(kind="planning", reason=reason, violations=tuple(error.violations))
        case _:
            return PlanningStopped(kind="model", reason=str(error))
