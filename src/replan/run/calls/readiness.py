"""What a step that is due comes to before its first call: does it run at all, and for which items."""

from __future__ import annotations

from typing import Any

from replan.core.events import StepSkipped
from replan.core.references.conditions import check_tells_nothing, holds, roots, steps_in_condition
from replan.core.references.meter import opened
from replan.core.references.paths import PathError
from replan.core.references.refs import RESULT, listed, references
from replan.core.references.resolve import resolve
from replan.core.secrets import reveal_known
from replan.core.state.task import State, StepState
from replan.core.types import Fault, Step, StepId
from replan.core.words import kind_of
from replan.errors import UnresolvedReference
from replan.run.calls.build import CannotCall
from replan.run.calls.scope import Scope, followed_by
from replan.run.session.outputs import Loaded


def skip_of(step: StepState, state: State, loaded: Loaded) -> StepSkipped | None:
    """Why the step is left out, if it is: its condition does not hold, or an input was left out.

    `CannotCall` if nobody can say whether its condition holds.
    """
    when = step.step.when
    if when is None:
        return skipped_input(step, state)
    try:
        if holds(when, _open(when, _condition_scope(step.step, state, loaded), state)):
            return skipped_input(step, state)
    except PathError as error:
        if need := _left_out(step.step, state):
            return _without(step, need)
        has = f"; it has: {', '.join(error.available[:20])}" if error.available else ""
        text = f"its condition cannot be worked out: {when}: {error.why}{has}"
        raise CannotCall(Fault(category="dependency_error", kind="condition", message=text)) from None
    return StepSkipped(
        step_id=step.step.step_id, kind="condition", reason=f"its condition does not hold: {when}"
    )


def _left_out(step: Step, state: State) -> StepId | None:
    """A skipped step whose output the condition looks at."""
    for name, part in roots(step.when or ""):
        if part != "status" and name in state.steps and state.steps[name].status == "skipped":
            return name
    return None


def skipped_input(step: StepState, state: State) -> StepSkipped | None:
    """The skip of a step that refers to the output of a skipped one."""
    if not state.any_skipped:
        return None
    wanted = [need for need in step.step.dependencies if state.steps[need].status == "skipped"]
    if not wanted:
        return None
    heads = _heads(step.step)
    for need in wanted:
        if heads & {need, *(action.action_id for action in state.steps[need].step.actions)}:
            return _without(step, need)
    return None


def _without(step: StepState, need: StepId) -> StepSkipped:
    reason = f"it needs the output of {need!r}, which was skipped"
    return StepSkipped(step_id=step.step.step_id, kind="dependency_skipped", because=need, reason=reason)


def _heads(step: Step) -> set[str]:
    """What the step's references start from."""
    heads = {reference.head for reference in references(step.parameters)}
    for action in step.actions:
        heads.update(reference.head for reference in references(action.parameters))
    if step.for_each:
        heads.update(reference.head for reference in references(step.for_each))
    return heads


def _condition_scope(step: Step, state: State, loaded: Loaded) -> dict[str, Any]:
    scope: dict[str, Any] = {"metadata": state.metadata_of(step.step_id)}
    named = set(steps_in_condition(step.when or ""))
    for need in step.dependencies:
        if need in named:
            other = state.steps[need]
            scope[need] = {"status": other.status}
            if other.status == "succeeded":
                scope[need]["output"] = loaded.output_of(other)
    for name in named & state.earlier.keys():
        other = state.earlier[name]
        scope[name] = {"status": other.status, "output": loaded.output_of(other)}
    for name in followed_by(step, state) if state.previous else ():
        task, _, what = name.partition(".")
        if task not in state.steps and task not in state.earlier:
            _put(scope.setdefault(task, {}), what, loaded.output_of(state.previous[name]))
    return scope


def _open(when: str, scope: dict[str, Any], state: State) -> dict[str, Any]:
    """The scope with what it masks as it is; `OfASecret` if the condition would tell of that."""
    if not state.hides:
        return scope
    check_tells_nothing(when, {**scope, "metadata": state.secrets.masked(scope["metadata"])})
    return {name: reveal_known(value) for name, value in scope.items()}


def _put(task: dict[str, Any], what: str, value: Any) -> None:
    """What an earlier task has given, where a condition looks for it: `result`, or `output` and `parameters` of a step."""
    step_id, _, part = what.partition(".")
    if step_id == RESULT:
        task[RESULT] = value
    else:
        task.setdefault(step_id, {"status": "succeeded"})[part or "output"] = value


def items_of(step: StepState, state: State, loaded: Loaded) -> list[Any] | None:
    """The items of a `for_each` step; None for any other. `CannotCall` if there is no list to go through."""
    wanted = step.step.for_each
    if wanted is None:
        return None
    try:
        literal = listed(wanted)
        items = opened(resolve(wanted if literal is None else literal, Scope(step.step, state, loaded)))
    except UnresolvedReference as error:
        raise CannotCall(Fault(category="dependency_error", kind="reference", message=str(error))) from None
    if not isinstance(items, list):
        text = f"for_each: {wanted} gives {kind_of(items)}, and a list is needed"
        raise CannotCall(Fault(category="dependency_error", kind="reference", message=text))
    limit = state.policy.limits.max_fan_out
    if len(items) > limit:
        text = f"for_each: {wanted} gives {len(items)} items; at most {limit} are allowed"
        raise CannotCall(Fault(category="decomposition_error", kind="parameter", message=text))
    return items
