"""Like calls that are under way: what is decided about a call waits for them."""

from __future__ import annotations

from collections.abc import Callable

from replan.core.ids import base_of
from replan.core.state.task import CallState, Slot, StepState
from replan.run.calls.outline import Outline
from replan.run.calls.shown import shown
from replan.run.session.context import Run

_FIRST_SECS, _LONGEST_SECS = 0.1, 5.0
"""Between two looks whether they have ended."""


async def likes_ended(run: Run, step: StepState, slot: Slot) -> None:
    """Wait for the very same calls as one in doubt: what a reading shows may be theirs."""
    call = step.calls.get(slot)
    if call is not None:
        await _while(run, lambda: call.status == "unknown" and _has_likes(run, call))


def _has_likes(run: Run, call: CallState) -> bool:
    return any(
        one.key != call.key and (one.tool_id, one.parameters) == (call.tool_id, call.parameters)
        for one in run.state.running_calls()
    )


async def is_free(run: Run, step: StepState, slot: Slot, meant: Outline) -> bool:
    """True if what was in the way of a call was under way and has failed since: it is waited for."""
    waited = await _while(run, lambda: any(map(_is_under_way, _likes(run, step, slot, meant))))
    return waited and all(call.status == "failed" for call in _likes(run, step, slot, meant))


async def _while(run: Run, holds: Callable[[], bool]) -> bool:
    """Wait as long as it holds; False if it does not."""
    waited, wait = False, _FIRST_SECS
    while holds():
        await run.parts.clock.sleep(wait)
        waited, wait = True, min(2 * wait, _LONGEST_SECS)
    return waited


def _is_under_way(call: CallState) -> bool:
    return call.status in ("running", "retrying")


def _likes(run: Run, step: StepState, slot: Slot, meant: Outline) -> list[CallState]:
    """What other places have begun of the effect that this one is to have: the latest try of each call."""
    state, tool = run.state, meant.tool
    if tool is None or meant.fault is not None or tool.effect != "once":
        return []
    names = set(state.bases(tool, meant.parameters))
    seen = shown(tool, meant.parameters, state.policy.max_output_bytes, state.secrets)
    same = state.made_of(tool, state.secrets.masked(seen)) if tool.unique_by else state.made.get(tool.id, ())
    latest = {
        call.key: call
        for call in same
        if (call.step_id, call.slot) != (step.step.step_id, slot)
        and (tool.unique_by or base_of(call.key) in names)
    }
    return list(latest.values())
