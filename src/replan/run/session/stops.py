"""What ends, halts or hands over a run from inside, and the word that most of a limit is used, once for each."""

from __future__ import annotations

from typing import Literal

from replan.core.events import BudgetWarning
from replan.core.limits.budget import Reached, nearly_used
from replan.run.session.context import Run


class BudgetReached(Exception):
    """A limit forbids the next call. The text is `name = value`."""

    def __init__(self, limit: Reached) -> None:
        super().__init__(limit.words)
        self.limit = limit


class Halted(Exception):
    """A task that has come to a plan cannot ask its model: it waits until it is resumed.

    `because`: its endpoint refuses the `key`, or the `model` cannot be reached, also not on further tries; or its `process` ends each time.
    """

    def __init__(self, reason: str, because: Literal["key", "model", "process"]) -> None:
        super().__init__(reason)
        self.because = because


class ModelAway(Exception):
    """This process cannot ask the model: its key is refused, or the model cannot be reached. Another worker may be able to."""


class HandedOver(Exception):
    """A task is let go of between two of its calls, for another process to go on with."""

    def __init__(self) -> None:
        super().__init__("this process ends; another one goes on with the task")


class Paused(HandedOver):
    """A person has paused the task: nothing is begun any more."""


def warn(run: Run) -> None:
    """Record of which limits most is used by now. The first round is the whole of a limit of one, and no news."""
    state = run.state
    budget, told = state.policy.budget, state.recovery.warned if state.recovery is not None else ()
    for one in nearly_used(budget, state.usage, rounds=state.rounds, secs=state.active_secs):
        if one.name not in told and (one.name != "max_rounds" or state.rounds > 1):
            run.record(BudgetWarning(limit=one.name, used=one.used, allowed=one.allowed))
