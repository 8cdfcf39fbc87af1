"""What a plan that is made anew owes of what the one before it said is still to be planned (`more`)."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.plan.fingerprint import labels_of
from replan.core.types import Plan, Step
from replan.run.session.context import Run


def still_owed(run: Run, made: Plan, new: Sequence[Step]) -> str:
    """What is still to be planned after this plan, which does not say `more` itself; empty if that is all there is to do.

    One that only finds out otherwise what a first part has not found out leaves the rest to be planned. One that has new
    effects may be the whole: whether it is says whoever judges.
    """
    before = run.state.plan
    if before is None or not before.more:
        return ""
    known = run.state.recovery.labels if run.state.recovery is not None else {}
    earlier = {**known, **labels_of(before, known)}
    labels, seen = labels_of(made, earlier), set(earlier.values())
    fresh = [step for step in new if labels.get(step.step_id) not in seen]
    return "" if any(_acts(run, step) for step in fresh) else before.more


def _acts(run: Run, step: Step) -> bool:
    found = (run.parts.tools.resolve(one.tool) for one in (step.actions or (step,)) if one.tool)
    return any(tool is None or tool.effect != "reads" for tool in found)
