"""The output of a step, put together from the outputs of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core.state.task import Output, Slot, StepState
from replan.core.types import Artifact


def artifacts_of(step: StepState) -> list[Artifact]:
    """The artifacts that the step's output is partly or wholly kept in."""
    return [call.output.artifact for call in step.calls.values() if call.output and call.output.artifact]


def compose(step: StepState, value_of: Callable[[Output], Any]) -> Any:
    """A finished step's output: its call's; `{action_id: output}`; or the list of its items, in order.

    Items that failed are left out of the list.
    """
    if step.items is not None:
        without = set(step.left_out)
        return [_once(step, index, value_of) for index in range(step.items) if index not in without]
    return _once(step, None, value_of)


def _once(step: StepState, index: int | None, value_of: Callable[[Output], Any]) -> Any:
    if step.step.actions:
        return {a.action_id: _call(step, Slot(a.action_id, index), value_of) for a in step.step.actions}
    return _call(step, Slot(None, index), value_of)


def _call(step: StepState, slot: Slot, value_of: Callable[[Output], Any]) -> Any:
    call = step.calls.get(slot)
    return None if call is None or call.output is None else value_of(call.output)
