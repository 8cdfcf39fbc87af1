"""What a plan, and each change of it, makes of a task's state: which steps are due, and which are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replan.core import events as e
from replan.core.state.progress import CLOSED, StepState
from replan.core.state.task import State, ids_of
from replan.core.tools.versions import Versions
from replan.core.types import Fault, Plan, Step, StepId, shared


def _planned(state: State, event: e.PlanGenerated, ts: float) -> None:
    if state.submitted is not None and state.submitted.plan is not None:
        state.submitted = state.submitted.lean(plan=None)  # this one it was: it is not kept twice
        state.given_as = state.plans + 1
    if event.scene is not None:
        state.scene = shared(event.scene)
    if event.workflow is not None:
        state.workflow = event.workflow
    take_plan(state, event.plan)
    date(state, state.given_at or ts)
    go_by_versions(state, event.made_with)


def date(state: State, ts: float) -> None:
    """The plan as it is now is of this time."""
    state.versions, state.given_at = (*state.versions[: state.plans - 1], ts), 0.0


def go_by_versions(state: State, versions: Versions | None) -> None:
    """The plan was made with these."""
    if versions is not None:
        state.made_with = _shared(versions)


def _shared(versions: Versions) -> Versions:
    """Thousands of tasks are planned with the same."""
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    return _KNOWN.setdefault(versions.digest, versions)


_KNOWN: dict[str, Versions] = {}
_MOST_KNOWN = 256


def add_versions(state: State, more: Versions | None) -> None:
    """The plan has tools of these versions too."""
    if more is not None and state.made_with is not None:
        state.made_with = _shared(state.made_with.with_more(more))


def _versions_changed(state: State, event: e.VersionsChanged, ts: float) -> None:
    state.made_with = _shared(event.made_with)
    state.unfit = {name: fault for name, fault in event.unfit.items() if name in state.steps}
    if event.held:
        state.held = {
            name: {**state.held.get(name, {}), **event.held.get(name, {})}
            for name in {**state.held, **event.held}
        }


def take_plan(state: State, plan: Plan) -> dict[StepId, StepState]:
    """Go by this plan from here on; the steps that it leaves out."""
    steps = tuple([step.lean() for step in plan.steps])
    state.plan = state.begun = plan.lean(steps=steps)
    state._graph = state._owners = state._constants = None
    state.plans += 1
    state.mode = None
    state._metadata = None
    if state.unfit:
        state.unfit = {}  # it has passed the checks with the tools as they are
    kept = state.steps
    state.steps = {}
    changed: list[Step] = []
    anew: set[StepId] = set()
    for step in steps:
        if step.requires_approval:
            _ask_for(state, step)
        known = kept.pop(step.step_id, None)
        if known is None:
            known = StepState(step, born=state.plans, meant=state.plans, planned=state.plans)
        elif known.step != step:
            changed.append(known.step)
            _keep_words(state, known.step, state.plans - 1)
            _leave_out_yes(state, known, step)
            if known.status != "succeeded":  # else it has done what it did before this plan
                known.born = state.plans
                if _forgets_calls(known, step, state.plans):
                    anew.add(step.step_id)
        known.step = step
        known._actions = None
        state.steps[step.step_id] = known
    count(state)
    gone = (*changed, *(one.step for one in kept.values()))
    if gone:
        state._ids = state._ids.union(*map(ids_of, gone))
    if anew or kept:
        state.ledger.free({*anew, *kept})
    if kept:
        for one in kept.values():
            one.gone = state.plans
            _keep_words(state, one.step, state.plans - 1)
            _leave_out_yes(state, one)
        state.left_out += kept.values()
        state.earlier.update((name, one) for name, one in kept.items() if one.has_output)
    _give_up_waits(state)
    return kept


def _give_up_waits(state: State) -> None:
    """What only steps have waited for that are left out, or call something else by now, nobody waits for any more."""
    for key in state.waits:
        call = state._calls.get(key)
        if call is None or call.status != "running":
            continue
        step = state.steps.get(call.step_id)
        if step is None or step.calls.get(call.slot) is not call:
            del state._calls[key]
            call.status = "failed"
            call.fault = Fault(
                category="unknown", kind="cancelled", message="the plan does without it by now"
            )


def leave_all_steps(state: State) -> None:
    """Go by no plan until there is another one: what was done stays known."""
    before = state._ids  # another plan may have steps of the same names
    take_plan(state, Plan(plan_id=""))
    state._ids = before
    state.plans -= 1
    state.plan = state.begun = None


def _keep_words(state: State, step: Step, until: int) -> None:
    """A step is written anew, or left out: what it has called was called in these words."""
    for name in ids_of(step):
        state.reworded.setdefault(name, []).append((until, step))


def _ask_for(state: State, step: Step) -> None:
    state.ask_for |= {action.tool for action in step.actions} if step.actions else {step.tool}


def _leave_out_yes(state: State, known: StepState, now: Step | None = None) -> None:
    """A step is left out, or written anew: a yes that it was to get is not got round by that."""
    if known.step.requires_approval and known.status != "succeeded" and not (now and now.requires_approval):
        state.yes_left_out = state.plans


def _forgets_calls(known: StepState, step: Step, plans: int) -> bool:
    """A step is written anew: what it has called as it was is the ledger's alone. True if it is."""
    if known.calls_as(step):
        return False
    known.meant = known.planned = plans
    known.keep_calls(("unknown",))
    known.items = None
    return True


def count(state: State) -> None:
    """Count anew what is counted of the steps."""
    statuses = [step.status for step in state.steps.values()]
    state.open_steps = len(statuses) - sum(map(statuses.count, CLOSED))
    state.any_skipped = "skipped" in statuses


def replace_step(state: State, step: Step) -> None:
    """Write one step of the plan anew, as a new version of the plan."""
    assert state.plan is not None
    known = state.steps[step.step_id]
    state._ids = state._ids.union(ids_of(known.step))
    _keep_words(state, known.step, state.plans)
    lean = step.lean()
    steps = tuple([lean if one.step_id == step.step_id else one for one in state.plan.steps])
    state.plans += 1
    state.plan = state.plan.lean(steps=steps, version=state.plans)
    state._graph = state._owners = None
    if lean.requires_approval:
        _ask_for(state, lean)
    _leave_out_yes(state, known, lean)
    known.step = lean
    if known.meant in state.continued:
        state.continued |= {state.plans}
    known.born = known.meant = state.plans
    known._actions = None
    known.keep_calls(("unknown",))
    known.items = None
    state.ledger.free({step.step_id})
    looked_at(state, step.step_id)
    _give_up_waits(state)


def looked_at(state: State, step_id: StepId) -> None:
    """It is known of the step that it does not fit the tools, and something was done about it."""
    if step_id in state.unfit:
        state.unfit = {name: fault for name, fault in state.unfit.items() if name != step_id}


def reopen(state: State, names: Iterable[StepId]) -> None:
    """Steps that had come to an end are due again, and all that was left out because of them."""
    due = [state.steps[name] for name in names if name in state.steps]
    for step_id in state.graph().downstream([step.step.step_id for step in due]):
        step = state.steps[step_id]
        if step.skip is not None and step.skip.kind != "condition":
            due.append(step)
    for step in due:
        if step.started is not None and step.ended is not None:
            step.idle += max(0.0, state.last_ts - step.ended)
        step.begin_again()
    state.ledger.free({step.step.step_id for step in due if step.step.for_each is not None})
    count(state)


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    e.PlanGenerated: _planned,
    e.VersionsChanged: _versions_changed,
}
