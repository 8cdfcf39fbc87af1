"""Metadata that a step has written and nobody knows: its call took effect, and what it gave was never told.

What was there before it is no stand-in: whoever reads the field fails, as a reference to the output itself does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replan.core.references.paths import static_steps
from replan.core.references.refs import references
from replan.core.state.task import State, StepState
from replan.core.types import JsonObject, StepId
from replan.ports import Tools


def unsaid(names: Iterable[str], step_id: StepId, state: State, tools: Tools) -> str:
    """Which of these fields of the metadata the step cannot read, and why; empty if it can read all."""
    if not state.any_settled:
        return ""
    for name in names:
        for writer in _before(step_id, state):
            if name in (writer.metadata or {}):
                break
            if _has_written(writer, name, tools):
                return (
                    f"{name!r} of the metadata is what step {writer.step.step_id!r} has given, which took effect, and nobody "
                    "has told what it gave: have it read in a step, and refer to that"
                )
    return ""


def referred_unsaid(raw: JsonObject, step_id: StepId, state: State, tools: Tools) -> str:
    """The same of the fields of the metadata that parameters refer to."""
    if not state.any_settled:
        return ""
    paths = (static_steps(ref.path) for ref in references(raw) if ref.head == "metadata" and ref.path)
    return unsaid([str(path[0]) for path in paths if path], step_id, state, tools)


def _before(step_id: StepId, state: State) -> Iterator[StepState]:
    """The steps whose metadata the step sees, the latest first."""
    names = list(state.steps)
    before = names[: names.index(step_id)] if step_id in state.steps else names
    yield from (state.steps[name] for name in reversed(before))
    yield from reversed(state.earlier.values())


def _has_written(step: StepState, name: str, tools: Tools) -> bool:
    for call in step.calls.values():
        if call.settled and call.status == "succeeded":
            tool = tools.resolve(call.tool_id)
            if tool is not None and name in tool.output_params:
                return True
    return False
