"""What prompts are told of the single calls of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replan.core.calls.site import Slot
from replan.core.data.spellings import same
from replan.core.evaluation.alike import like_before
from replan.core.state.task import CallState, State, StepState
from replan.core.types import JsonObject
from replan.reasoning.prompting.view import MOST_CALLS, CallReport, ItemCalls


def only_call(step: StepState) -> CallState | None:
    """The call of a step that makes a single one, of which all is told as of the step."""
    calls = list(step.calls.values())
    return calls[0] if len(calls) == 1 and not step.step.actions and step.items is None else None


def single_calls(step: StepState, state: State) -> list[CallReport]:
    """The calls that have something of their own to say: of an earlier form, failed, in doubt, reused, effects, or made otherwise than
    planned; and after them each action's reading that went as planned. Of very many those come first that are unlike the others."""
    again = step.calls if only_call(step) is None else {}
    kept, plain = _kept(step), list[CallState]()
    told: list[tuple[str, CallState]] = [
        (f"earlier, in plan {call.plan}", call)
        for call in step.former or ()
        if call.status in ("succeeded", "failed", "unknown") and kept.get(call.slot) is not call
    ]
    for call in again.values():
        if (made := kept.get(call.slot)) is not None:  # told as it was made: nothing was called since
            told.append((f"kept from plan {made.plan}", made))
        elif not _as_planned(call, step) or call.effect != "reads":
            told.append((call.slot.words(), call))
        elif call.slot.item is None and len(again) > 1:  # of one alone the step itself tells the parameters
            plain.append(call)
    told += [(call.slot.words(), call) for call in plain]
    if len(told) > MOST_CALLS:
        told.sort(key=lambda one: _as_planned(one[1], step))
    return [_report(place, call, step, state) for place, call in told]


def item_calls(step: StepState) -> Iterator[ItemCalls]:
    """What the items' readings were called with that went as planned: what they have in common, and what each has besides."""
    if len(step.calls) < 2:
        return
    kept, groups = _kept(step), dict[str | None, list[CallState]]()
    for call in step.calls.values():
        planned = call.effect == "reads" and _as_planned(call, step)
        if call.slot.item is not None and call.slot not in kept and planned:
            groups.setdefault(call.slot.action_id, []).append(call)
    for action, calls in groups.items():
        common = _in_all(calls)
        each = [
            (Slot(None, call.slot.item).words(), _without(call.parameters, common))
            for call in sorted(calls, key=lambda call: call.slot.item or 0)[:MOST_CALLS]
        ]
        yield ItemCalls(
            place=Slot(action).words(),
            tool=calls[0].tool_id,
            parameters=common,
            each=tuple(each) if any(own for _, own in each) else (),
            count=len(calls),
            every=len(calls) == step.items,
        )


def call_notes(call: CallState, step: StepState, state: State) -> Iterator[str]:
    """What is to be known of a call besides its status."""
    if call.reused:
        yield "reused: an earlier call gave this, and nothing was called"
    elif call.of_task:
        yield f"made by task {call.of_task!r} of the same family before, whose call stands for this one: nothing was called"
    elif call.status == "succeeded" and call.effect != "reads":
        yield "has taken effect" + _found_out(call)
        if not step.step.repeat and (like := like_before(state, call)) is not None:
            yield f"very like what plan {like.plan} has done in {like.step_id}: the same effect twice, if not meant so"
    elif call.status == "unknown":
        yield "nobody knows whether it took effect"
    if (planned := _planned_tool(call, step)) and call.tool_id and call.tool_id != planned:
        yield f"a stand-in for {planned}"
    elif call.status == "succeeded" and _changed(call, step):
        yield "with other parameters than were planned"
    known = state.recovery
    said = known.approvals.get(call.key) if known is not None else None
    if said is not None and said.approved:
        yield "waited for a person, who agreed"


def _found_out(call: CallState) -> str:
    if not call.settled:
        return ""
    given = call.output
    known = given is not None and (given.artifact is not None or given.value is not None)
    return f" (its answer was lost; that was found out afterwards{'' if known else ', and not what it gave'})"


def _as_planned(call: CallState, step: StepState) -> bool:
    """True of a call that has succeeded, made here with the tool and the parameters of the plan."""
    return (
        call.status == "succeeded"
        and call.was_made
        and not _changed(call, step)
        and call.tool_id == (_planned_tool(call, step) or call.tool_id)
    )


def _changed(call: CallState, step: StepState) -> bool:
    """True if recovery has put something else in the place of what the plan says."""
    return step.healing is not None and call.slot in step.healing.overrides


def _planned_tool(call: CallState, step: StepState) -> str:
    for one in step.step.actions:
        if one.action_id == call.slot.action_id:
            return one.tool
    return step.step.tool or ""


def _kept(step: StepState) -> dict[Slot, CallState]:
    """The calls of the step's earlier form whose outputs stand for those of its form now."""
    again = step.calls if only_call(step) is None else {}
    return {
        call.slot: call
        for call in step.former or ()
        if call.status == "succeeded" and _taken_over(again.get(call.slot), call)
    }


def _taken_over(now: CallState | None, former: CallState) -> bool:
    """True if the output of a call that the step made in an earlier form stands for the one at this place now."""
    return now is not None and now.reused and now.key == former.key


def _in_all(calls: Sequence[CallState]) -> JsonObject:
    """The parameters that are the same in all of the calls."""
    first, *others = (call.parameters for call in calls)
    return {
        name: value
        for name, value in first.items()
        if all(name in one and same(one[name], value) for one in others)
    }


def _without(parameters: JsonObject, common: JsonObject) -> JsonObject:
    return {name: value for name, value in parameters.items() if name not in common}


def _report(place: str, call: CallState, step: StepState, state: State) -> CallReport:
    error = call.fault.message if call.fault is not None and call.status != "succeeded" else ""
    where = ", ".join(filter(None, dict.fromkeys([place, call.slot.words()])))
    tries = (f"{call.attempt} tries",) if call.attempt > 1 else ()
    notes = (*call_notes(call, step, state), *tries)
    return CallReport(where, call.tool_id, call.status, call.parameters, error, notes)
