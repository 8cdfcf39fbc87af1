"""Which calls need a person's yes where a task is driven: by what it was begun with, or by what is configured there, whichever wants more."""

from __future__ import annotations

from replan.core.begun import APPROVAL
from replan.core.limits.policy import stricter_approval
from replan.core.types import JsonObject
from replan.run.session.context import Run


def stricter_here(run: Run, instead: JsonObject) -> JsonObject:
    """What a drive goes on with `instead` of what the log says, with the approval mode of this process where that is the stricter one.

    It holds for every task and every way in which a drive begins; what somebody has said as the task was gone on with counts as it is.
    """
    state, mode = run.state, run.parts.approval
    if APPROVAL in instead or state.approval_said or not stricter_approval(mode, state.policy.approval):
        return instead
    return {**instead, APPROVAL: mode}
