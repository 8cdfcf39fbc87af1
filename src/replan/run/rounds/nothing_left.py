"""A plan made anew without a step, where nobody but the steps themselves says whether that is all: what is owed is told, once."""

from __future__ import annotations

from replan.core.evaluation.left_out import left_out
from replan.core.report.explain import step_words
from replan.core.types import Plan
from replan.core.words import some
from replan.run.session.context import Run

SAID_AGAIN = (
    "by the planner nothing is left to be done, and no step of it says that it stands for what is missing"
)
_MOST = 5


def adds_nothing(run: Run, plan: Plan) -> bool:
    """True if the plan is made anew, has no step, and by the steps alone that would have to be all."""
    anew = run.state.replanning is not None
    return anew and not plan.steps and not plan.declined and run.state.policy.evaluation == "steps"


def what_is_owed(run: Run) -> str:
    """What is wrong with such a plan, in words for the planner."""
    state = run.state
    found = left_out(state, run.parts.tools.resolve).undone
    owed = [one.told_alone for one in found if not one.will_do]
    owed += [
        f"{step_words(step)} failed{f': {step.fault.message}' if step.fault is not None else ''}"
        for step in state.steps.values()
        if step.status == "failed"
    ]
    if not owed:
        return (
            "the plan has no steps, and with evaluation = steps the answer is what the last ones gave: write the step again that gives it, "
            "as it is (nothing is made again)"
        )
    return (
        f"the plan has no steps, and with evaluation = steps this is owed: {some(owed, _MOST)}. Where a step that is done has had the effect in "
        'its place, write that step again, as it is, with `instead_of` (`"instead_of": ["…"]`, the id of the one that lacks it): nothing is made '
        "again. Else write the steps that are missing, or in `cannot` why there are none"
    )
