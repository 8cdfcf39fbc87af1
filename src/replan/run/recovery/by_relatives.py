"""Calls in doubt of which another task knows that shares the history in which they were begun: its log says what became of them."""

from __future__ import annotations

from collections.abc import Iterable

from replan.core.events import OutcomeUnknown, StepFailed
from replan.core.state.task import CallState
from replan.core.types import CallKey, Fault, ToolSpec
from replan.run.family import relatives
from replan.run.recovery.settled import Again, Settled, record_settled
from replan.run.session.context import Run
from replan.run.session.outputs import Packed, added_metadata


async def settle(run: Run, call: CallState, tool: ToolSpec) -> Settled | None:
    """What is known of the call there; None if nothing is."""
    found = await _found(run, call)
    if found is None:
        return None
    if found.became == "not made":
        record_settled(run, call, happened=False, by=found.named)
        return Again()
    undone = await relatives.undone_since(run, call.key)
    output, value, stored = await relatives.copied(run, found)
    given = Packed(output.value, output.artifact, None, output.files, stored)
    text = ""
    if undone:  # it is had, and does not stand for the step
        text = (
            f"{found.named} has made this very call, and something else was done about the same since, by {undone}, which is no part of "
            "this task: leave it out if what was done counts, or set `repeat: true` with its `repeat_reason`"
        )
    record_settled(run, call, happened=True, given=given, by=found.named, at=found.at, refused=text)
    if text:
        return Fault(category="decomposition_error", kind="repeated", message=text)
    return added_metadata(tool, value)


async def settle_apart(run: Run, keys: Iterable[CallKey]) -> None:
    """The same of calls that no open step has: of a step that had failed by the event, or of a plan that the fork has no more."""
    state = run.state
    for key in keys:
        call = state.in_doubt.get(key)
        if call is None or (tool := run.parts.tools.resolve(call.tool_id)) is None:
            continue
        settled = await settle(run, call, tool)
        if isinstance(settled, Fault) and state.holds(call):
            run.record(StepFailed(step_id=call.step_id, error=settled))  # else it would take it for done


async def _found(run: Run, call: CallState) -> relatives.Theirs | None:
    """What is sure of it there; a doubt there is one here, of that try: what is found out is about that."""
    found = await relatives.known_elsewhere(run, call.key)
    if found is None or found.became == "done":
        return found
    if run.state.like_in_doubt(
        call.key
    ):  # what is in doubt are others, of which this one's log tells nothing
        return None
    if found.became != "in doubt":
        return found
    if run.state.tries_elsewhere.get(call.key) != (found.of_try, False):
        run.record(
            OutcomeUnknown(
                call_key=call.key, step_id=call.step_id, action_id=call.slot.action_id, index=call.slot.item,
                attempt=call.attempt, tool_id=call.tool_id, of_try=found.of_try,
                reason=found.told_in_doubt,
            )
        )  # fmt: skip
    return None
