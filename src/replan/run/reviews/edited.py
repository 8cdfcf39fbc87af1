"""A plan that a person gives in place of the one that waits: read and checked as any other."""

from __future__ import annotations

from typing import NamedTuple

from replan.core.ids import canonical
from replan.core.plan.check import Checked
from replan.core.plan.read import PlanMisread
from replan.core.secrets import MASK, SecretLost, reveal
from replan.core.types import JsonObject, Plan, Step
from replan.run.rounds.plan_checks import NotSelected, check
from replan.run.rounds.stages import new_plan
from replan.run.session.context import Run


class Edited(NamedTuple):
    checked: Checked | None
    violations: tuple[str, ...]
    """All that is wrong with it; with none it can be carried out."""


def edited(run: Run, given: JsonObject) -> Edited:
    """What a person means by this plan. A step that is as it was shown stays as it is, secrets that were shown masked included."""

    try:
        found = _checked(run, new_plan(run, reveal(given) if run.state.hides else given))
    except SecretLost:
        return Edited(
            None, ("the plan holds a secret, which no log keeps: give it as metadata, and refer to it",)
        )
    except PlanMisread as error:
        return Edited(None, tuple(error.and_what_else(lambda draft: _checked(run, draft).violations)))
    except NotSelected as error:
        return Edited(None, error.violations)
    wrong = [] if found.tried_before else list(found.violations)  # a person may well mean it once more
    if found.plan.declined:
        wrong.append(
            "the plan has no steps: reject the one that waits, and say why, in place of `cannot` or `ask_first`"
        )
    elif not found.plan.steps:
        wrong.append("the plan has no steps: reject the one that waits, or cancel the task")
    return Edited(found, tuple(dict.fromkeys(wrong)))


def _checked(run: Run, draft: Plan) -> Checked:
    state = run.state
    steps = tuple(_as_it_is(run, step) for step in draft.steps)
    draft = draft.model_copy(update={"steps": steps})
    wrong: list[str] = []
    for step in steps:
        known = state.steps.get(step.step_id)
        if known is not None and known.closed and known.step != step:
            wrong.append(
                f"step {step.step_id!r} has come to its end ({known.status}): leave it as it is, or leave it out"
            )
        elif (known is None or known.step != step) and MASK in canonical(step.model_dump(mode="json")):
            wrong.append(
                f"step {step.step_id!r}: {MASK} stands for a secret that is not shown, and is no value: refer to where it is from"
            )
    kept = [step.step_id for step in steps if step.step_id in state.steps]
    found = check(run, draft, run.parts.tools.specs(), kept=kept)
    return found._replace(
        violations=(*wrong, *found.violations), tried_before=found.tried_before and not wrong
    )


def _as_it_is(run: Run, step: Step) -> Step:
    """The step of the plan that waits, where this is that one as it was shown."""
    known = run.state.steps.get(step.step_id)
    if known is None or known.step == step:
        return step
    shown = run.secrets.masked(known.step.model_dump(mode="json"))
    return known.step if shown == step.model_dump(mode="json") else step
