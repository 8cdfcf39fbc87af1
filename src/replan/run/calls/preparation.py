"""What comes before a call: the call itself, or the outcome that it has already, or cannot but have."""

from __future__ import annotations

from typing import Any

from replan.beside import beside
from replan.core.failures.faults import in_doubt
from replan.core.state.task import Slot, StepState
from replan.core.types import Fault, JsonObject
from replan.run.calls.attempts.recorded import recorded
from replan.run.calls.build import Call, CannotCall, LeftInDoubt, NeedsApproval, prepare
from replan.run.calls.closing import close_call, take_on
from replan.run.calls.outcomes import Parked, crashed_fault, internal_fault
from replan.run.calls.outline import Meant, meaning
from replan.run.calls.repeats import has_rest, is_one_of_several
from replan.run.session.context import Run
from replan.run.session.outputs import Loaded, added_metadata


async def prepared_beside(
    run: Run, step: StepState, slot: Slot, loaded: Loaded, item: Any = None
) -> Call | Parked | Fault | JsonObject:
    """`prepared_call` where the parameters may be large: they are gone through beside the event loop."""
    try:
        meant = await beside(meaning, step, slot, run.state, run.parts.tools, loaded, item)
    except Exception:  # noqa: BLE001 - other steps go on meanwhile: what was in their way is looked at again, alone
        meant = None
    return prepared_call(run, step, slot, loaded, item, meant)


def prepared_call(
    run: Run, step: StepState, slot: Slot, loaded: Loaded, item: Any = None, meant: Meant | None = None
) -> Call | Parked | Fault | JsonObject:
    """The call to make, at once or when it is due; or its outcome, where it has one or cannot be made."""
    known = step.calls.get(slot)
    if known is not None and known.status == "unknown":
        return known.fault or crashed_fault()
    if known is not None and known.status == "failed" and known.fault is not None:
        return known.fault
    if known is not None and known.refused:
        return Fault(category="decomposition_error", kind="repeated", message=known.refused)
    if known is not None and known.output is not None:
        # Done before a crash, and done it stays, whatever its references would give by now.
        return added_metadata(run.parts.tools.resolve(known.tool_id), loaded.value_of(known.output))
    if (unfit := run.state.unfit.get(step.step.step_id)) is not None:
        if known is None or not known.may_have_been_made:
            return unfit
        close_call(run, known, "crashed", f"it was cut off; {unfit.message}")
        return known.fault or crashed_fault()
    try:
        state, tools = run.state, run.parts.tools

        def one_of_several(base: str, parameters: JsonObject) -> bool:
            return is_one_of_several(step, slot, base, parameters, state, tools, loaded)

        call = prepare(
            step,
            slot,
            state,
            tools,
            loaded,
            one_of_several=one_of_several,
            has_rest=lambda: has_rest(step, slot.action_id, state, tools, loaded),
            item=item,
            meant=meant,
        )
    except LeftInDoubt as error:
        take_on(run, error.call, step, slot)
        return error.call.fault or crashed_fault()
    except CannotCall as error:
        return error.fault
    except NeedsApproval as waits:
        return Parked(waits.call)
    except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
        return internal_fault(error)
    answered = call.tool.waits == "question" and known is None and recorded(run, call) is not None
    if call.tool.waits and not answered:
        if known is not None and known.key == call.key and call.key in state.waits:
            call.attempt = known.attempt  # it goes on waiting
        call.waits = True
        return Parked(call)
    if (
        known is None
        and (left := run.state.latest_try(call.key)) is not None
        and run.state.is_under_way(left)
    ):
        known = left  # a step that the plan has no more was to make it again
    if known is not None:
        if known.key != call.key and known.may_have_been_made:
            # Its references give something else by now: that would be a second effect, not the same again.
            text = "it was cut off, and the parameters it was made with cannot be had again"
            close_call(run, known, "crashed", text)
            return known.fault or crashed_fault()
        call.attempt = known.attempt + 1
        call.retries = known.retries
        if known.status == "running" and call.tool.effect == "once":
            call.doubt = "an earlier attempt was cut off"
        elif known.fault is not None and in_doubt(known.fault, call.tool):
            call.doubt = known.fault.message
    elif step.healing is not None and (before := run.state.latest_try(call.key)) is not None:
        call.attempt = before.attempt + 1
    return call
