"""The word that most of a limit is used, once for each."""

from __future__ import annotations

from replan.core.events import BudgetWarning
from replan.core.limits.budget import nearly_used
from replan.run.session.context import Run


def warn(run: Run) -> None:
    """Record of which limits most is used by now. The first round is the whole of a limit of one, and no news."""
    state = run.state
    budget, told = state.policy.budget, state.recovery.warned if state.recovery is not None else ()
    for one in nearly_used(budget, state.usage, rounds=state.round, secs=state.active_secs):
        if one.name not in told and (one.name != "max_rounds" or state.round > 1):
            run.record(BudgetWarning(limit=one.name, used=one.used, allowed=one.allowed))
