"""What is known by now of a call that was in doubt, and its record."""

from __future__ import annotations

from typing import NamedTuple

from replan.core.events import OutcomeSettled
from replan.core.state.task import CallState
from replan.core.types import CallKey, Fault, JsonObject
from replan.run.session.context import Run
from replan.run.session.outputs import Packed


class Again(NamedTuple):
    """It did not happen, and may be made."""


class Unsettled(NamedTuple):
    """Code cannot tell."""

    why: str = ""


Settled = JsonObject | Fault | Again | Unsettled
"""Metadata of a call that happened; why its step fails all the same, or what one that did not happen has failed of; or how to go on."""


def record_settled(
    run: Run,
    call: CallState,
    *,
    happened: bool,
    by: str,
    given: Packed | None = None,
    record: str = "",
    at: float | None = None,
    refused: str = "",
    of_call: CallKey = "",
) -> None:
    """Record what became of the call. `refused`: why it does not stand for its step, though it happened; `of_call`: the key that it was made
    with."""
    kept = given.artifact if given is not None else None
    run.record(
        OutcomeSettled(
            call_key=call.key, step_id=call.step_id, action_id=call.slot.action_id, index=call.slot.item,
            attempt=call.attempt, tool_id=call.tool_id, happened=happened, by=by, record=record,
            output=given.value if given is not None and kept is None else None, artifact=kept,
            files=given.files if given is not None else (),
            masked=given is not None and given.masked, at=at, refused=refused,
            of_call=of_call if of_call != call.key else "",
        ),
        artifacts=given.new if given is not None else (),
    )  # fmt: skip
