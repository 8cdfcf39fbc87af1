"""What the events of recovery add to a task's state: a handler for each kind, as in `core.state.task`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core import events as e
from replan.core.calls.site import READING, Slot, slot_of
from replan.core.failures.faults import DONE_ALREADY
from replan.core.failures.signature import normalized, signature
from replan.core.ids import canonical, digest
from replan.core.plan.fingerprint import labels_of, prints_of
from replan.core.plan.lineage import in_place_of, replacements
from replan.core.reflection import NEW_STEPS, RETRIES, SuggestedAction
from replan.core.state.fold_plans import (
    add_versions,
    count,
    date,
    go_by_versions,
    looked_at,
    replace_step,
    take_plan,
)
from replan.core.state.progress import CallState, StepState
from replan.core.state.recovery import Recovery, RoundNote, Unplanned
from replan.core.state.step_recovery import Healing, Override, Reading
from replan.core.state.task import State, ids_of
from replan.core.types import Step, StepId, ToolId

OUTSIDE = frozenset({"external_error", "server_error"})
_MOST_READ = 8_000
"""Characters of a reading's output that are kept for the reflection after it."""


# ── failures ──────────────────────────────────────────────────────────────────


def _reflected(state: State, event: e.StepReflected, ts: float) -> None:
    known = state.mending()
    if event.fresh:
        _failed(state, event.signature)
        known.note(state.round).failed.append(event)
    step = state.steps.get(event.step_id)
    if step is None:
        return
    looked_at(state, event.step_id)
    if step.healing is None:
        step.healing = Healing()
    mine, slot, action = step.healing, event.slot, event.action
    mine.take(event)
    state.failures += 1
    mine.pending.pop(slot, None)
    if action.type in RETRIES:
        known.retries += 1
        mine.overrides[slot] = override(mine.overrides.get(slot), action)
        if event.call_key is not None:
            state.ledger.vacate(event.call_key, (event.step_id, slot))
        elif event.error.kind in DONE_ALREADY:
            state.ledger.leave((event.step_id, slot))
        step.put_away(slot)
    elif action.type != "settle_outcome":
        mine.pending[slot] = action


def override(before: Override | None, action: SuggestedAction) -> Override:
    """What a call is made with after this retry was decided."""
    if action.type == "retry_with_tool":
        given = action.data.get("parameters")
        tool: ToolId = str(action.data.get("tool_id", ""))
        return Override(tool, dict(given) if isinstance(given, dict) else {}, isinstance(given, dict))
    before = before or Override()
    return before._replace(parameters={**before.parameters, **action.data})


def _failed(state: State, sign: str) -> None:
    """Something has failed in this round."""
    known = state.mending()
    note = known.note(state.round)
    note.signatures.add(sign)
    if sign not in known.seen:
        known.seen.add(sign)
        note.news = True


def step_failed(state: State, step: StepState, event: e.StepFailed) -> None:
    """A step has failed for good; what was reflected on is counted already."""
    if step.healing is not None and any(one.error == event.error for one in step.healing.reflected):
        return
    tool = step.step.tool or next((call.tool_id for call in step.calls.values() if call.fault), "")
    _failed(state, signature(tool, event.error))


def judged(state: State, event: e.EvaluationCompleted) -> None:
    """A round has been judged: is it better than those before, does something fail that had not."""
    verdict = event.evaluation
    if verdict is None:
        return
    known = state.mending()
    known.outdated = False
    reflection = state.reflection.reflection if state.reflection is not None else None
    if reflection is not None and reflection.done_in_substance and not (verdict.is_successful or known.word):
        state.reflection = state.escalation = None  # it took for done what is not: it is reflected on anew
    note = known.note(state.round)
    note.score = verdict.overall_score
    missing = state.policy.success_threshold - (known.best or 0.0)
    if known.best is None or verdict.overall_score >= known.best + max(MATTERS, missing / 10):
        note.better = True
        known.best = max(known.best or 0.0, verdict.overall_score)
    ids = {name for step in state.steps.values() for name in ids_of(step.step)}
    for failure in verdict.failures:
        begins, _, rest = failure.partition(" ")  # the same failure, whatever its step is called this time
        _failed(state, f"judged: {normalized(rest if begins in ids else failure)}")


MATTERS = 1.0
"""Points by which a round has to be better at least; more where more is missing: a tenth of it."""


# ── readings about calls in doubt ─────────────────────────────────────────────


def reading_started(state: State, event: e.CallStarted, ts: float) -> None:
    """A reading about another call: no part of the step."""
    if step := state.steps.get(event.step_id):
        if step.healing is None:
            step.healing = Healing()
        slot = _about(event)
        step.healing.pending.pop(slot, None)
        made = [one for one in step.healing.readings.get(slot, ()) if one.output or one.error]
        step.healing.readings[slot] = [*made, Reading(event.call_key, event.tool_id, event.parameters, at=ts)]


def reading_ended(state: State, event: e.CallCompleted | e.CallFailed) -> None:
    """What it gave."""
    step = state.steps.get(event.step_id)
    if step is None or step.healing is None:
        return
    for reading in step.healing.readings.get(_about(event), ()):
        if reading.call_key == event.call_key:
            if isinstance(event, e.CallFailed):
                reading.error = event.error.message
            elif event.artifact is not None:
                reading.output = f"{event.artifact.head} … {event.artifact.tail}"
            else:
                reading.output = canonical(event.output)[:_MOST_READ]


def _about(event: e.CallStarted | e.CallCompleted | e.CallFailed) -> Slot:
    action = (event.action_id or "").removeprefix(READING)
    return slot_of(action or None, event.index)


# ── repairs and new plans ─────────────────────────────────────────────────────


def _repaired(state: State, event: e.StepRepaired, ts: float) -> None:
    step = state.steps.get(event.step.step_id)
    if step is None:
        return
    known = state.mending()
    known.repairs += 1
    if step.healing is None:
        step.healing = Healing()
    step.healing.repairs += 1
    step.healing.repaired_at = len(step.healing.failures())
    asked = [slot for slot, action in step.healing.pending.items() if action.type == "repair_step"]
    step.healing.rewritten += [one for slot in asked if (one := step.healing.latest(slot)) is not None]
    step.healing.restart(_done_as_planned(step, event.step))
    if state.plan is not None:  # the plan as it began has been tried too
        known.began = known.began or prints_of(state.plan, (), known.labels, state.earlier)
    replace_step(state, event.step)
    date(state, ts)
    add_versions(state, event.made_with)
    state._metadata = None


def _done_as_planned(step: StepState, new: Step) -> list[Slot]:
    """The calls that have succeeded and mean the same in the new form: what was put in for them stays, and they are done."""
    old = step.step
    if new.for_each != old.for_each:
        return []
    alike: set[str | None] = {one.action_id for one in new.actions if one in old.actions}
    if (new.tool, new.parameters) == (old.tool, old.parameters):
        alike.add(None)
    return [
        slot for slot, call in step.calls.items() if call.status == "succeeded" and slot.action_id in alike
    ]


def _triggered(state: State, event: e.OverallReflectionTriggered, ts: float) -> None:
    state.mending()
    state.escalation = event


def _reflection_completed(state: State, event: e.ReflectionCompleted, ts: float) -> None:
    known = state.mending()
    known.reflections += 1
    state.reflection = event
    if event.reflection is not None:
        known.reflection = event.reflection
        note = known.note(state.round)
        note.outside = note.outside or event.reflection.problem_nature in ("external", "server")
        note.outcome = event.reflection.reflection_text or "; ".join(event.reflection.root_causes)


def _replanning(state: State, event: e.ReplanningStarted, ts: float) -> None:
    known = state.mending()
    if state.replanning is None:
        known.replans += not event.continues
        note = known.note(state.round - 1)  # of the round that has just ended
        brought = event.continues and note.take_part(_succeeded_calls(state))
        if event.continues:
            note.outcome = note.outcome or f"what was planned is done; still to be planned: {event.reason}"
        failed = [step.fault for step in state.steps.values() if step.status == "failed"]
        note.outside = note.outside or any(
            fault is not None and fault.category in OUTSIDE for fault in failed
        )
        if state.plan is not None:
            began = known.began or prints_of(state.plan, (), known.labels, state.earlier)
            whole, left = prints_of(state.plan, _succeeded(state), known.labels, state.earlier)
            for one in (*began, whole, left) if not note.heard else ():
                if brought:
                    known.parts.add(one)
                else:
                    known.prints[one] = known.prints.get(one, True) and note.outside
                known.deeds[one] = state.ledger.deeds
            if not (note.better or note.outside or event.continues):
                known.barren.add(prints_of(state.plan, (), known.labels)[0])
            given = _result(state)
            for one in {*began, whole, left}:
                known.results.setdefault(one, []).append(given)
            before = known.results[whole]
            if len(before) > 1 and before[-1] != before[-2]:
                by_steps = state.evaluation is not None and state.evaluation.by == "steps"
                # a poll is done as it was planned, and who judges waits for what it gives
                waits = not by_steps and not any(map(_is_without, state.steps.values()))
                note.moved, note.stirred = note.moved or waits, note.stirred or not waits
        if not note.outcome and state.escalation is not None:
            note.outcome = state.escalation.reason
        if event.strategy.type in NEW_STEPS and not event.continues:
            state.selection = None
    state.replanning = event
    state.escalation = None


def _is_without(step: StepState) -> bool:
    return step.status == "failed" or (step.status == "skipped" and not step.moot)


def _succeeded_calls(state: State) -> list[CallState]:
    calls = (call for step in state.every_step() for call in step.calls.values())
    return [call for call in calls if call.status == "succeeded" and not call.reused]


def _stopped(state: State, event: e.PlanningStopped, ts: float) -> None:
    state.impasse = event


def _result(state: State) -> str:
    """What the plan has given, in 128 bits; of a large plan, which is no poll, nothing."""
    if len(state.steps) > _MOST_POLLED_STEPS:
        return ""
    outputs = [
        (slot, call.output)
        for step in state.steps.values()
        for slot, call in step.calls.items()
        if call.output is not None
    ]
    return digest(canonical([[list(slot), output.value, repr(output.artifact)] for slot, output in outputs]))


_MOST_POLLED_STEPS = 50


def _updated(state: State, event: e.PlanUpdated, ts: float) -> None:
    known = state.mending()
    note = known.note(state.round)
    known.lapsed.clear()  # what it means is asked for anew
    note.heard = False  # what was said before in this round is known to the plan: no reason to try it again
    note.strategy, note.reason = event.strategy, event.reason
    note.why = state.replanning.strategy.reason if state.replanning is not None else ""
    note.plan_version, note.changes = event.plan.version, event.diff.words()
    if state.plan is not None:
        known.labels |= labels_of(state.plan, known.labels)
    before, more = set(state.steps), state.plan.more if state.plan is not None else ""
    agreed = state.may_carry_out
    asks_yes = state.yes_left_out
    left_out = take_plan(state, event.plan)
    if event.review_id or not agreed:
        left_out = _without_unagreed(state, left_out, by_person=bool(event.review_id))
        more, state.yes_left_out = "", asks_yes
    date(state, state.given_at or ts)
    go_by_versions(state, event.made_with)
    continues = state.replanning is not None and state.replanning.continues
    if continues:
        state.continued |= {state.plans}
    if event.plan.more or (continues and not before.issuperset(state.steps)):
        known.unplanned = None
    elif more:
        known.unplanned = Unplanned(more, asked=continues)
    for name, step in left_out.items():
        if step.status != "succeeded":
            known.dropped[name] = step
        if not step.closed:
            reason = f"plan {event.plan.version} left it out before it was started"
            step.status, step.skip = "skipped", e.StepSkipped(step_id=name, kind="left_out", reason=reason)
    if more or continues:
        known.after_more = known.after_more | {state.plans}
    new = [step for name, step in state.steps.items() if name not in before]
    _inherit(state, known, new, announced=bool(more or continues))
    due = [state.steps[name] for name in event.reset if name in state.steps]
    for step in due:
        if step.healing is not None:
            step.healing.restart()
        step.begin_again()
    state.ledger.free({step.step.step_id for step in due if step.step.for_each is not None})
    count(state)
    known.began = prints_of(event.plan, _succeeded(state), known.labels, state.earlier)
    state.replanning = state.escalation = None
    if event.review_id and state.reviews is not None:
        state.reviews.agreed = event.plan.version  # whoever has given it has agreed to it by that


def _without_unagreed(
    state: State, left_out: dict[StepId, StepState], *, by_person: bool
) -> dict[StepId, StepState]:
    """The steps that are owed: not those of a plan that nobody has agreed to, nor what a person has taken out of one. Neither has done anything."""
    gone = {
        name: step
        for name, step in left_out.items()
        if not step.closed and not step.every_call() and (by_person or step.meant == state.plans - 1)
    }
    if gone:
        state.left_out = [one for one in state.left_out if gone.get(one.step.step_id) is not one]
        known = state.mending()  # what one of them was to take the place of, another one may
        known.replaced = {old: new for old, new in known.replaced.items() if new not in gone}
    return {name: step for name, step in left_out.items() if name not in gone}


def _inherit(state: State, known: Recovery, new: list[StepState], *, announced: bool) -> None:
    """What was tried in vain for a step is known to the one that takes its place, whatever that is called.

    `announced`: the new steps may be what the plan before had left to be planned: none is taken for another call than its own, unless it
    says so (`instead_of`); and then it has not taken the place unseen, so that who judges is told.
    """
    again = {name for step in known.dropped.values() for name in step.step.instead_of}
    """What a later one was in place of that failed too: whoever takes the place of that one takes theirs."""
    left = [step for name, step in known.dropped.items() if name not in known.replaced and name not in again]
    gone = [step.step for step in sorted(left, key=lambda step: step.status != "failed")]
    for name, old in replacements([step.step for step in new], gone, same_call=announced).items():
        known.replaced[old] = name
        _know_what_was_tried(state, known, name, old)
    if announced:
        rest = [step for step in gone if step.step_id not in known.replaced]
        for name, old in in_place_of([step.step for step in new], rest).items():
            if state.steps[name].healing is None:
                _know_what_was_tried(state, known, name, old)


def _know_what_was_tried(state: State, known: Recovery, name: StepId, old: StepId) -> None:
    tried = known.dropped[old].healing
    if tried is not None:
        state.steps[name].healing = tried.heir()
        state.failures += 1


def _succeeded(state: State) -> set[StepId]:
    return {name for name, step in state.steps.items() if step.status == "succeeded"}


def _warned(state: State, event: e.BudgetWarning, ts: float) -> None:
    state.mending().warned.add(event.limit)


def rounds_of(state: State) -> list[RoundNote]:
    return state.recovery.rounds if state.recovery is not None else []


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    e.StepReflected: _reflected,
    e.StepRepaired: _repaired,
    e.OverallReflectionTriggered: _triggered,
    e.ReflectionCompleted: _reflection_completed,
    e.ReplanningStarted: _replanning,
    e.PlanningStopped: _stopped,
    e.PlanUpdated: _updated,
    e.BudgetWarning: _warned,
}
